"""Tables that do not fit into memory: read in pieces, surveyed once, trained on in batches."""
