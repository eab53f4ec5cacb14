"""Variants of a model side by side: differences in speed and in outputs, interference, and gates."""
