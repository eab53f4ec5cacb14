"""Rank 3: plan (when), engine (the loop), links (sockets), workers (processes)."""
