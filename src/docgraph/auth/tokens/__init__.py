"""Tokens in the place of passwords: made, shared by the workers, verified, ended."""
