"""The data of the requests: generated values or the user's own."""
