"""Rank 8: the command lines, one thin file per command."""
