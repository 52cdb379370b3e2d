"""The quickstart: this machine's own documentation in, a better model and its proof out."""
