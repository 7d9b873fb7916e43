"""Rules: one file each, a folder per family."""
