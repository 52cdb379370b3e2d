"""The only code that writes files: whole or not at all, one process at a time, only what is
ours.
"""
