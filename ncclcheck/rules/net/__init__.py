"""Rules about what carries traffic between machines."""
