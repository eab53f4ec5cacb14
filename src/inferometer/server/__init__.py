"""A real Triton of our own to measure: the embedded server and the example models it serves."""
