"""Drills: what a server stands, measured under attack. `make test` does not collect them."""
