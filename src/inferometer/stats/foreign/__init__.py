"""Readers of result files that other load testers wrote; each returns our `Result`."""
