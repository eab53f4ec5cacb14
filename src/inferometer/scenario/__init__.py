"""Rank 6: whole systems, several classes of traffic through several phases."""
