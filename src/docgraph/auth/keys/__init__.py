"""API keys: credentials of machines (decision 72)."""
