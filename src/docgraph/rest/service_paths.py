"""Databases and collections whose path belongs to another service are refused (decision 41)."""

from __future__ import annotations

from collections.abc import Sequence

from docgraph.rest.call import Call
from docgraph.store.mounts import ReservedResource, find_paths

__all__ = ["check_reachable"]

Segments = tuple[str, ...]


def check_reachable(call: Call) -> None:
    """403 when a path of the database or collection belongs to another service."""
    settings = call.context.settings
    for path in find_paths(call.resource, settings.mongo_mounts, settings.uri):
        service = _find_service(path, call.context.services)
        if service is not None:
            raise ReservedResource(
                f"reserved resource: /{'/'.join(path)} belongs to the service at "
                f"/{'/'.join(service)}"
            )


def _find_service(path: Segments, services: Sequence[Segments]) -> Segments | None:
    return next((one for one in services if one and path[: len(one)] == one), None)
