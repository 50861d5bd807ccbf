"""Cookies that carry tokens: set, read, guarded against forgery, removed."""
