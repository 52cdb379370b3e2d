"""The path from tokens to loss: components by name, presets, and the objective that runs them."""
