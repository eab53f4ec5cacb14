"""Scenarios: several classes of traffic through several phases."""
