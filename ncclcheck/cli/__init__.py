"""The command line: arguments in, exit code out. The only package that prints."""
