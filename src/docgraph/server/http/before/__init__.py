"""The protocol on uvicorn, until the tests pass on our own as well."""
