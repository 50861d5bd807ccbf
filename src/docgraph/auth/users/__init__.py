"""Users in the database: hashed and stripped passwords, the first administrator, what follows a change."""
