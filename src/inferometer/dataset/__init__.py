"""Rank 2: what the requests carry: generated values or the user's own."""
