"""The arithmetic of digest authentication (RFC 7616 3.4), without any state.

`secret` is HA1: what an authenticator stores or computes, as good as the password for its realm.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import Final

from docgraph.auth.headers import DigestCredentials

__all__ = ["compute_response", "compute_rspauth"]


def _md5(data: bytes) -> str:
    # Old clients know nothing else; nobody is asked to trust it for more than that.
    return hashlib.md5(data, usedforsecurity=False).hexdigest()


def _sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


_HASHES: Final[dict[str, Callable[[bytes], str]]] = {"MD5": _md5, "SHA-256": _sha256}


def compute_response(secret: str, given: DigestCredentials, method: str) -> str:
    """What the client must have sent if it knows the secret."""
    return _compute(secret, given, method)


def compute_rspauth(secret: str, given: DigestCredentials) -> str:
    """The same from the other side: proof for the client that the server knows the secret."""
    return _compute(secret, given, "")


def _compute(secret: str, given: DigestCredentials, method: str) -> str:
    digest = _HASHES[given.algorithm]
    action = digest(f"{method}:{given.uri}".encode("latin-1"))
    parts = (secret, given.nonce, given.nc, given.cnonce, "auth", action)
    return digest(":".join(parts).encode("latin-1"))
