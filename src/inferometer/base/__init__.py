"""Errors, clock, units, notes, and the reading and writing of files. Imports none of our packages."""
