"""`POST /_batch`: several requests for documents in one transaction."""
