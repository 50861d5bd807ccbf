"""Authenticators: look up users and check passwords; one file each."""
