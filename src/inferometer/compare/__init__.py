"""Rank 6: comparison of variants of a model: their speed and their outputs."""
