"""Facts: tables of what was read, and the questions rules ask of them."""
