"""The guard against guessing passwords."""
