"""``gumdrop fit``: split, train, compare, and a folder that appears whole."""
