"""Cache of answers: stored until one of the documents that they depend on changes."""
