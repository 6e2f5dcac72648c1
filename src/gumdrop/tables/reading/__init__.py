"""A file, whatever its spelling of numbers and dates, becomes a data frame."""
