"""Rank 6: variants of a model side by side: how their speed differs, and what they answer."""
