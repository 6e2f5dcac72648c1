"""Gradient estimators for dropout rates."""
