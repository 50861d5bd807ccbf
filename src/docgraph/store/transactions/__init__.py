"""Writes and transactions: several writes that are applied together."""
