"""Film reviews."""
