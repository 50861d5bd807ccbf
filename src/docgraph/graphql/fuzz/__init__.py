"""What `docgraph access fuzz` has to know of an app: its documents, and questions to ask it."""
