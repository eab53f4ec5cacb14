"""Fit a simulation of a server to measured runs, and predict loads that were not measured."""
