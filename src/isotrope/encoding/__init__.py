"""Vectors of texts of any number, and search among them."""
