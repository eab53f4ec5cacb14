"""Rank 2: service kinds. What to send, what a reply means, and the control calls."""
