"""Rules about virtual machines."""
