"""Loaders that turn files into arrays, one module per format."""
