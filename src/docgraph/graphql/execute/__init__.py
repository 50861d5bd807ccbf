"""Execution: a plan, its parents and its commands, to a result."""
