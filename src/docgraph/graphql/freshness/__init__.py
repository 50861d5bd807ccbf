"""Freshness: what an answer depends on, and which changes of the database make it outdated."""
