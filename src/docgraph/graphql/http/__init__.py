"""The GraphQL endpoint: request bodies, operations, answers."""
