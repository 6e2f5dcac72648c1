"""A noisy line."""
