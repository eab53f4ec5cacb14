"""Fakes for the tests: a clock, servers on that clock, servers that stall, fail and misbehave."""
