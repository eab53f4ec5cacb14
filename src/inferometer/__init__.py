"""Inferometer: a load-testing tool for inference servers."""

__version__ = "0.3.0"
