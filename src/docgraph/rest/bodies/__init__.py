"""The bodies of writes, and what metadata may say."""
