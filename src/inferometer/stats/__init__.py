"""Rank 4: windows, quantiles, intervals, stability. Pure functions over records."""
