"""Which components there are, by name, and which of them cannot work together."""
