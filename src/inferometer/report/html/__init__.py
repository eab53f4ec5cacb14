"""Reports as one self-contained page."""
