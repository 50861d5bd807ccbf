"""Reserved paths: reject databases and collections at the path of a service (decision 41)."""

from __future__ import annotations

from collections.abc import Sequence

from docgraph.rest.call import RestCall
from docgraph.store.mounts import ReservedResource, find_paths

Segments = tuple[str, ...]


def check_reachable(call: RestCall) -> None:
    """Reject with 403 if a path of the database or collection belongs to another service."""
    settings, resource = call.context.settings, call.resource
    name = resource.db if resource.collection is None else resource.collection
    # If mounts are templates, only the path of the request itself is known.
    known = find_paths(resource, settings.mongo_mounts, settings.uri)
    for path in (call.request.segments, *known):
        service = _find_service(path, name, call.context.services)
        if service is not None:
            raise ReservedResource(
                f"reserved resource: /{'/'.join(path)} belongs to the service at "
                f"/{'/'.join(service)}"
            )


def _find_service(
    path: Segments, name: str | None, services: Sequence[Segments]
) -> Segments | None:
    """Return the service at the path or above it; for a new name, also one below it.

    A service below a database does not prevent its creation: it hides one of the collections.
    """
    is_of_name = path[-1:] == (name,)
    for service in services:
        is_above = bool(service) and path[: len(service)] == service
        if is_above or (is_of_name and service[: len(path)] == path):
            return service
    return None
