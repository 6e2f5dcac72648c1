"""How the default for tables was chosen."""
