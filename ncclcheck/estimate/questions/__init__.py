"""The questions of `ncclcheck estimate`, one module each, and how flags become configurations of the model."""
