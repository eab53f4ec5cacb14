"""Runs in a browser: watch, start, keep and compare them."""
