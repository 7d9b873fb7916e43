"""Rules about GPUDirect RDMA."""
