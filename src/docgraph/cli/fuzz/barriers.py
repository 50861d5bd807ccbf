"""Barriers: what the rules hide from a caller, by the same authorizers as in a server."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import quote

from docgraph.cli.fuzz.documents import Barrier
from docgraph.cli.fuzz.material import Material, list_entries
from docgraph.cli.fuzz.rest import ServedCollection
from docgraph.cli.fuzz.world import World
from docgraph.exchange import Exchange, Permission, Request, Resource, ResourceType
from docgraph.exchange.request import encode_path
from docgraph.graphql.sections import Graphql
from docgraph.mcp.sections import Mcp
from docgraph.rest.sections import Mongo
from docgraph.store.guard.shown import is_shown
from docgraph.store.mounts import find_paths
from docgraph.workbench.fuzz.collection_shape import PropertyShape, find_constants, mark_path
from docgraph.workbench.fuzz.fuzz_values import pool_value


class Barriers:
    """Row filters by namespace, and the collections that the caller can reach by REST."""

    def __init__(self) -> None:
        self.rows: dict[str, list[Barrier]] = {}
        self.collections: list[ServedCollection] = []
        self.notes: list[str] = []

    def add(self, namespace: str, filter: Mapping[str, Any], reason: str) -> None:
        """Add a filter, unless it is already known."""
        known = self.rows.setdefault(namespace, [])
        if all(one.filter != filter for one in known):
            known.append(Barrier(filter, reason))


def app_path(material: Material, settings: Graphql) -> str:
    """Return the endpoint of the app."""
    return f"{settings.uri.rstrip('/')}/{quote(material.app.definition.uri)}"


def list_uris(metadata: Mapping[str, Any] | None, kind: str) -> list[str]:
    """Return the names of stored aggregations (`aggrs`) or streams (`streams`)."""
    return [one["uri"] for one in list_entries(metadata, kind)]


def _find_names(value: Any) -> Iterator[str]:
    """Yield the variables of an aggregation."""
    if isinstance(value, list):
        for one in value:
            yield from _find_names(one)
    for key, inner in value.items() if isinstance(value, Mapping) else ():
        if key == "$var":
            yield str(inner[0] if isinstance(inner, list) and inner else inner)
        else:
            yield from _find_names(inner)


async def find_barriers(world: World, material: Material) -> Barriers:
    """Authorize hypothetical requests that reach the collections of the app."""
    found = Barriers()
    sections = world.app.plugins.values["configuration"]
    shapes = material.surface.shapes
    renamed = {world.renaming.namespace(name): name for name in shapes}
    for name, shape in shapes.items():
        for path in _find_paths(world, name, sections.get(Mongo.section_name)):
            await _inspect(world, material, found, ServedCollection(name, path, shape), renamed)
        for hidden in world.app.store.guard.shield().hidden.get(world.renaming.namespace(name), ()):
            _hide(shape, {".".join(hidden): 0}, "docgraph itself")
    settings = sections[Graphql.section_name]
    agents = sections.get(Mcp.section_name)
    posts = [app_path(material, settings)]
    posts += [agents.uri] if isinstance(agents, Mcp) and agents.enabled else []
    for path in posts:
        permission, reason = await _find_permission(world, material, path, is_post=True)
        if permission is None:
            found.notes.append(f"the caller may not ask {path}: {reason}")
        _record_rows(found, permission, renamed, path)
    for name, barriers in found.rows.items():
        for barrier in barriers:
            list(find_constants(shapes[name], barrier.filter))
    return found


async def _inspect(
    world: World,
    material: Material,
    found: Barriers,
    collection: ServedCollection,
    renamed: Mapping[str, str],
) -> None:
    """Inspect a collection at one path, with its aggregations and streams."""
    metadata = material.metadata.get(collection.namespace)
    collection.aggregations = {
        one["uri"]: sorted({name for name in _find_names(one) if name[:1] != "@"})
        for one in list_entries(metadata, "aggrs")
    }
    below = ["/_size", f"/{quote(str(pool_value(collection.id_kind, 0)))}"]
    below += [f"/_aggrs/{quote(one)}" for one in collection.aggregations]
    below += [f"/_streams/{quote(one)}" for one in list_uris(metadata, "streams")]
    is_open, reason = False, ""
    for path in (collection.path, *(f"{collection.path}{one}" for one in below)):
        permission, reason = await _find_permission(world, material, path)
        if permission is None:
            continue
        is_open = True
        _record_rows(found, permission, renamed, path)
        if permission.project_response:
            reason = f"projectResponse of the rule {permission.rule}"
            _hide(collection.shape, permission.project_response, reason)
    if is_open:
        found.collections.append(collection)
    else:
        found.notes.append(f"the caller may not read {collection.path}: {reason}")


def _find_paths(world: World, namespace: str, settings: Any) -> Iterator[str]:
    if not isinstance(settings, Mongo) or not settings.enabled:
        return
    db, _, collection = world.renaming.namespace(namespace).partition(".")
    resource = Resource(ResourceType.COLLECTION, db, collection)
    yield from map(encode_path, find_paths(resource, settings.mongo_mounts, settings.uri))


async def _find_permission(
    world: World, material: Material, path: str, *, is_post: bool = False
) -> tuple[Permission | None, str]:
    """Return the permission of a request, and why; None: denied. Without a rule it is empty."""
    imagination = world.app.plugins.values["imagined-requests"]
    outer = Exchange(Request("GET", b"/"), "fuzz", account=material.account)
    if is_post:
        other = imagination.check_post(outer, path, b"{}", material.account)
    else:
        other = imagination.check_get(outer, path)
    decision = await imagination.find_decision(other)
    if not decision.allowed:
        return None, decision.reason
    return decision.permission or Permission(rule=""), decision.reason


def _record_rows(
    found: Barriers, permission: Permission | None, renamed: Mapping[str, str], path: str
) -> None:
    if permission is None:
        return
    for namespace, filter in permission.read_filters.items():
        if namespace in renamed and filter:
            found.add(renamed[namespace], filter, f"the rule {permission.rule} at {path}")


def _hide(shape: PropertyShape, shown: Mapping[str, int], reason: str) -> None:
    for path in shown:
        mark_path(shape, path)
    for steps, node in shape.leaves():
        if not is_shown(".".join(steps), shown) and steps[0] != "_id":
            node.hidden_by += [reason] if reason not in node.hidden_by else []
