"""Rank 6: proves the instrument on this machine, against servers of its own whose behaviour is known."""
