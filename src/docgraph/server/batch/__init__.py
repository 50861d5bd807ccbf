"""`POST /_batch`: requests for documents that are carried out in one transaction."""
