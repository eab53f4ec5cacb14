"""Rank 1: datatypes, tensors, and what a server says about a model."""
