"""From data to an API: a definition that is read off a sample of the collections."""
