"""The parameters of a request, and the ids in its path, read into typed values."""
