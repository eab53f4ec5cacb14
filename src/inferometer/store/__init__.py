"""Runs that are kept: one folder each, and an index of them."""
