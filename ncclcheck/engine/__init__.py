"""From facts and rules to one `Report`: which rules run, how each ended, what causes what."""
