"""Apps: compiled definitions, the table of them, and how it follows the database."""
