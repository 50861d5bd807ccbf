"""Mutation testing: change one expression of the source, and see whether a test fails."""
