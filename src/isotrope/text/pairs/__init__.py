"""Pairs: from a document to an anchor and its positive, before any model reads them."""
