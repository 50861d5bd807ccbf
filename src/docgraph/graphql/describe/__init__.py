"""An app in words for those who do not speak GraphQL to it: SDL, search, JSON Schema."""
