"""What the columns of a table are, how they are encoded, and what is odd in them."""
