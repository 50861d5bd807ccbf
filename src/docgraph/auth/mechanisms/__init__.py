"""Authentication mechanisms: read credentials from a request; one file each."""
