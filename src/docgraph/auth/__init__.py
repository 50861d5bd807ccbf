"""Who is calling: mechanisms, authenticators, tokens, cookies."""
