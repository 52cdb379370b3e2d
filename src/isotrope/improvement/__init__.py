"""Choosing a model without labels: candidates, a race between them, and a decision that may be to
keep the old one.
"""
