"""Reports about a study: folds, same input, same bytes."""
