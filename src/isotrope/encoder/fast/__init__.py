"""The same encoder, faster: no padding, cheap dropout, compiled layers."""
