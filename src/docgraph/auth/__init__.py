"""Authentication: mechanisms, authenticators, tokens, cookies."""
