"""The estimators beside others."""
