"""Rank 3: what the server and the host say about themselves while load runs."""
