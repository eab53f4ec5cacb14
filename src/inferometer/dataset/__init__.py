"""Rank 2: data of the requests, generated or given by the user."""
