"""Inferometer: the measuring instrument for inference servers."""

__version__ = "0.3.0"
