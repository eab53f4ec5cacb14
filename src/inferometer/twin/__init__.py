"""A simulation of a server made out of measured runs, and what it says of loads that were not measured."""
