"""Outputs of tools that tell of machines: one module per tool, one grammar per text format."""
