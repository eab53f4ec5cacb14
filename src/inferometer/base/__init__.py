"""Rank 0: errors, clock, units, notes. Imports nothing of ours."""
