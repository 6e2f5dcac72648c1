"""UCI regression against a grid search."""
