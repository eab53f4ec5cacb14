"""Readers of recordings of tasks, one module for each format."""
