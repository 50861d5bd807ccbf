"""Apps: stored definitions, compiled apps, and how both follow changes in the database."""
