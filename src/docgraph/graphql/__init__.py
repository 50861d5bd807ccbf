"""GraphQL over collections: definition → app → plan → result."""
