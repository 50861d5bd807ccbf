"""Cookies with tokens: set, read, protect against CSRF, remove."""
