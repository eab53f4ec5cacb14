"""An embedded Triton server to measure, and its example models."""
