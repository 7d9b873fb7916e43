"""This machine: the only package that asks the driver."""
