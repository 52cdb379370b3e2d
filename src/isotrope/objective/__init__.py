"""The path from tokens to loss, and nothing else."""
