"""Servers that we start: the embedded Triton with its example models, and any other by its command line."""
