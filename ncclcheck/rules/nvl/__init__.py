"""Rules about NVLink, NVSwitch and the fabric over machines."""
