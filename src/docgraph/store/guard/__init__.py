"""Database security: forbidden operators, row filters and hidden properties."""
