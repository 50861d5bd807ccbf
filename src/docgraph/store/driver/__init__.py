"""MongoDB driver: its client, commands with deadline and limit, the fast path, its errors."""
