"""Embedded MongoDB: finds, starts, supervises and stops the bundled `mongod`."""
