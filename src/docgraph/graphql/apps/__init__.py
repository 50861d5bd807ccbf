"""Apps: stored definitions, the compiled apps, and how both follow the database."""
