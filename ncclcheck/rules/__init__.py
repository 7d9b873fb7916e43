"""One file per rule, a folder per family: what is wrong, why it costs, how to mend it."""
