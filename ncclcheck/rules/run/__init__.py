"""Rules about consistency and failures of the run."""
