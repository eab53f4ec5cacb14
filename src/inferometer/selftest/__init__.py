"""Checks of the client on this machine, against built-in servers of known behaviour."""
