"""Execution of a plan: its parents, its commands and its result."""
