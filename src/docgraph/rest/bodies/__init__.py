"""Request bodies of writes, and validation of metadata."""
