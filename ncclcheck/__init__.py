"""ncclcheck: a linter for NCCL logs and GPU-cluster telemetry."""

__version__ = "0.1.0"
