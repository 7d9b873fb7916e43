"""Rules about host channel adapters."""
