"""Enforce the conditions of a permission on reads and writes."""
