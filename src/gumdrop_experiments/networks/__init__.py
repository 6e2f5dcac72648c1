"""Published architectures."""
