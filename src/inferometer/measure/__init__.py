"""Rank 5: one level, search over levels: the imperative shell around load and measure."""
