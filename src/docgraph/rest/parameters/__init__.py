"""Request parameters and ids in paths, parsed into typed values."""
