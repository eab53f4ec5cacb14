"""Rank 6: tests the instrument on this machine against built-in servers with known behaviour."""
