"""REST API: databases, collections and documents over HTTP."""
