"""Reports: folds over a frozen result; the same result gives the same bytes."""
