"""Readers turn inputs into rows of the fact tables."""
