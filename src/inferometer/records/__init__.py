"""Rank 1: what happened to each request, as columns; the only per-request type."""
