"""Rules about what was measured."""
