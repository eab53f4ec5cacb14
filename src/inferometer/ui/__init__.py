"""The browser interface: watch, start, store and compare runs."""
