"""The only code that writes files: whole or not at all, by one process at a time, and only over what is ours."""
