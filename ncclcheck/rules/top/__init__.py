"""Rules about topology, rails and channels."""
