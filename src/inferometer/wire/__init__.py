"""Rank 1: sans-IO codecs. Bytes in, events out; no socket, no clock."""
