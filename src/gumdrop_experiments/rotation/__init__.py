"""A digit that turns."""
