"""Limits for the authors of definitions: no more than their own requests would return."""
