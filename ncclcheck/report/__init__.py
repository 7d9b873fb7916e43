"""From a `Report` to text: one module per output format."""
