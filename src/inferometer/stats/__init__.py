"""Windows, quantiles, intervals, stability: pure functions of records."""
