"""Databases and collections whose path belongs to another service are refused (decision 41)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from docgraph.config.sections import Mongo
from docgraph.exchange import Resource
from docgraph.exchange.path import parse_path
from docgraph.rest.call import Call
from docgraph.store.mounts import ReservedResource

__all__ = ["check_reachable", "find_paths"]

Segments = tuple[str, ...]


def check_reachable(call: Call) -> None:
    """403 when a path of the database or collection belongs to another service."""
    for path in find_paths(call.resource, call.context.settings):
        service = _find_service(path, call.context.services)
        if service is not None:
            raise ReservedResource(
                f"reserved resource: /{'/'.join(path)} belongs to the service at "
                f"/{'/'.join(service)}"
            )


def find_paths(resource: Resource, settings: Mongo) -> Iterator[Segments]:
    """The paths at which a database or collection is mounted; those of templates are not known."""
    own: Segments = tuple(name for name in (resource.db, resource.collection) if name is not None)
    prefix = parse_path(settings.uri.encode())
    for mount in settings.mongo_mounts:
        what = () if mount.what == "*" else parse_path(mount.what.encode())
        if "{" not in mount.where and own[: len(what)] == what:
            yield (*prefix, *parse_path(mount.where.encode()), *own[len(what) :])


def _find_service(path: Segments, services: Sequence[Segments]) -> Segments | None:
    return next((one for one in services if one and path[: len(one)] == one), None)
