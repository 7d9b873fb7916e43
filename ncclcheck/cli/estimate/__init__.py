"""`ncclcheck estimate`: what a job should get, before or without a log."""
