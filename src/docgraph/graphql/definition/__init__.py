"""Definitions: decoded documents, schemas and scalars, mappings, what each role sees, checks."""
