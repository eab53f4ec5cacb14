"""Benchmarks against other tools, each with a target ("bar"): `python -m benchmarks`."""
