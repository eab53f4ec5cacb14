"""Fakes we ship and use ourselves: a clock, a server on that clock, servers that stall, fail and lie."""
