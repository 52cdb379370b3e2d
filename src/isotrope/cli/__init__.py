"""The command line: a few lines a command, thin over the package's functions."""
