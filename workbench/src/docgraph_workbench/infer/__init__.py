"""Infer: generate a definition from a sample of the collections."""
