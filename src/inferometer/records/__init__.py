"""The outcome of each request, stored in columns; the only per-request type."""
