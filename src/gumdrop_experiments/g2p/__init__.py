"""From letters to phones."""
