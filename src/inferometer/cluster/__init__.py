"""Distributed load: clients on many machines, one controller, one result."""
