"""Metrics of the server and the host, collected while load runs."""
