"""Rank 2: service kinds, with their requests, the meaning of replies, and control calls."""
