"""Model cards: what a model is, how it was made, whether it is better, and what nobody knows about it."""
