"""The page that a run leaves."""
