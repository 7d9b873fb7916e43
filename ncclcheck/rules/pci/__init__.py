"""Rules about transfers over PCIe and host memory."""
