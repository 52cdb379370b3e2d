"""The quickstart: a collection that ships, a raw model, no label, and the proof that the model became better."""
