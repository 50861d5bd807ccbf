"""Definitions: decoding, schemas and scalars, mappings, visibility by role, validation."""
