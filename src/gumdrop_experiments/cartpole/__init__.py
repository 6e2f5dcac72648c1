"""A pole swung up from few trials."""
