"""docgraph: GraphQL APIs over MongoDB by declaration."""

__version__ = "0.1.0"
