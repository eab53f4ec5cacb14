"""Datatypes, tensors, and a server's description of a model."""
