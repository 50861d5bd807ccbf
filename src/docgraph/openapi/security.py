"""The mechanisms that are on, as security schemes of the description."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from docgraph.exchange import Document

__all__ = ["describe_security"]

_BASIC: Final[Document] = {"type": "http", "scheme": "basic"}
_SCHEMES: Final[dict[str, Document]] = {
    "basicAuthMechanism": _BASIC,
    "tokenBasicAuthMechanism": _BASIC,
    "digestAuthMechanism": {"type": "http", "scheme": "digest"},
    "jwtAuthenticationMechanism": {"type": "http", "scheme": "bearer", "bearerFormat": "JWT"},
}


def describe_security(mechanisms: Iterable[str], cookie: str | None) -> dict[str, Document]:
    """The schemes by name; `cookie` is the name of the cookie where one is read."""
    known = (_SCHEMES[name] for name in mechanisms if name in _SCHEMES)
    schemes = {str(scheme["scheme"]): scheme for scheme in known}
    if cookie is not None:
        schemes["cookie"] = {"type": "apiKey", "in": "cookie", "name": cookie}
    return schemes
