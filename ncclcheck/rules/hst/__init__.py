"""Rules about host, container and process."""
