"""Stored runs: one folder each, and an index of them."""
