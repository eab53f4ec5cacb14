"""Reports: pure functions of a frozen result; the same result gives the same bytes."""
