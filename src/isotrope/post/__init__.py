"""Post steps: vectors → vectors, fitted once on text without labels."""
