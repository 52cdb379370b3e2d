"""The same encoder, faster: no padding, cheap dropout, fewer bits."""
