"""Writes, and transactions, in which several of them count together."""
