"""The mongod that comes along: found, started, watched over and stopped."""
