"""Users in the database: password hashing, hidden passwords, first user, effects of changes."""
