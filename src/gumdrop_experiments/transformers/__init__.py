"""Dropout in small transformers."""
