"""The embedded Triton server and the example models it serves."""
