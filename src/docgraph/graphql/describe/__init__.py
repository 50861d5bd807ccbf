"""App descriptions for callers who do not use GraphQL directly: SDL, search, JSON Schema."""
