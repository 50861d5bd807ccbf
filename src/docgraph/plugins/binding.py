"""Service binding: its path, and whether it needs authorization, from its section or class."""

from __future__ import annotations

from docgraph.exchange.path import parse_path
from docgraph.plugins.kinds import Service


def bound_path(service: Service, section: object) -> tuple[str, ...]:
    """Return the path at and below which a service answers, as decoded segments."""
    uri: str | None = getattr(section, "uri", None)
    return parse_path((uri or service.uri).encode())


def is_secured(service: Service, section: object) -> bool:
    """Return whether requests to a service must pass an authorizer."""
    secured: bool | None = getattr(section, "secured", None)
    return service.secured if secured is None else secured
