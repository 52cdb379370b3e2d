"""The data of the evaluation: list it, fetch it, check it, prepare it."""
