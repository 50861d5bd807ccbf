"""A docgraph app as a subgraph of a federated graph."""
