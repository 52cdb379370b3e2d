"""Evaluation of anything with `encode(list[str])`; knows nothing of training."""
