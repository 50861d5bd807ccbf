"""Users in the database: hashed and hidden passwords, the first one, what follows a change."""
