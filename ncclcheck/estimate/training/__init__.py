"""A training step: what it sends, how long that takes, what hides behind compute, and what a loss costs."""
