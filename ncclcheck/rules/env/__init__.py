"""Settings: environment variables of NCCL and of what stands beside it."""
