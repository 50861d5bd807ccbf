"""Hash lengths of JWT algorithms: the minimum length of a secret (RFC 7518 3.2)."""

from __future__ import annotations


def hash_bytes(algorithm: str) -> int:
    """Return the length for an algorithm such as `HS256`, `HMAC256` or `RS256`."""
    return int(algorithm[-3:]) // 8


def is_short(key: str, algorithm: str) -> bool:
    """Return whether a key is a secret, and shorter than the hash."""
    return algorithm.startswith("H") and len(key.encode()) < hash_bytes(algorithm)
