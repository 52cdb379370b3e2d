"""The quickstart: a collection that ships, a raw model, no label, and the proof of what made the
model better.
"""
