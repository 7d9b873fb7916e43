"""Rules about what the input allows to judge."""
