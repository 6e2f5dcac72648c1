"""What uncertainty is good for."""
