"""The `mongo` block of a permission rule: row filters, merged values, hidden properties, flags.

The four flags are a part of matching: a rule without the flag that a request needs does not match
it. The filters are resolved once per request, with the variables of its caller; a missing variable
denies the request, since a filter without its value would be a different filter.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Final

from docgraph.access.language import RequestView
from docgraph.exchange import Permission, Resource, ResourceType
from docgraph.exchange.errors import QueryError, SecurityViolation
from docgraph.store.names import namespace_of
from docgraph.variables import MATCH_NOTHING, NotBound, Scope, Template, TrustedDocument

MANAGEMENT: Final = "allowManagementRequests"
BULK_PATCH: Final = "allowBulkPatch"
BULK_DELETE: Final = "allowBulkDelete"
WRITE_MODE: Final = "allowWriteMode"
FLAGS: Final = (MANAGEMENT, BULK_PATCH, BULK_DELETE, WRITE_MODE)

READS: Final = frozenset({"GET", "HEAD", "OPTIONS"})
_MANAGED: Final = frozenset(
    {
        ResourceType.INDEXES,
        ResourceType.INDEX,
        ResourceType.SCHEMA_STORE,
        ResourceType.SCHEMA,
        ResourceType.METADATA,
    }
)
_DOCUMENTS: Final = frozenset({ResourceType.COLLECTION, ResourceType.DOCUMENT, ResourceType.BULK})


class Unresolved(Exception):
    """A filter of the rule cannot be resolved for this request; the text is the reason."""


@dataclass(frozen=True, slots=True)
class Conditions:
    """The compiled conditions."""

    read_filter: Template | None = None
    read_filters: Mapping[str, Template] = field(default_factory=dict)
    write_filter: Template | None = None
    merge_request: Template | None = None
    project_response: Mapping[str, int] | None = None
    flags: frozenset[str] = frozenset()
    properties: Mapping[str, Any] = field(init=False)  # the parts that are the same for all callers
    has_filters: bool = field(init=False)
    variables: frozenset[str] = field(init=False)  # in the filters of reads
    narrow: bool = field(init=False)  # whether they restrict any caller
    effect: tuple[Any, ...] = field(init=False, repr=False)  # differences for a permitted request

    def __post_init__(self) -> None:
        properties: dict[str, Any] = {flag: flag in self.flags for flag in FLAGS}
        if self.project_response is not None:
            properties["projectResponse"] = dict(self.project_response)
        templates = (self.read_filter, self.write_filter, self.merge_request)
        has_filters = bool(self.read_filters) or any(one is not None for one in templates)
        reads = (self.read_filter, *self.read_filters.values())
        names = frozenset[str]().union(*(one.names for one in reads if one is not None))
        object.__setattr__(self, "variables", names)
        object.__setattr__(self, "properties", MappingProxyType(properties))
        object.__setattr__(self, "has_filters", has_filters)
        effect = (*templates, self.read_filters, self.project_response)
        object.__setattr__(self, "effect", effect)
        object.__setattr__(self, "narrow", has_filters or self.project_response is not None)


def find_flag(view: RequestView) -> str | None:
    """Return the flag that a rule must have to match the request, if any."""
    resource, method = view.resource, view.request.method
    if resource is None or method == "OPTIONS":
        return None
    if _is_management(resource.type, method):
        return MANAGEMENT
    if resource.type is ResourceType.BULK and method in ("PATCH", "DELETE"):
        return BULK_PATCH if method == "PATCH" else BULK_DELETE
    if resource.type in _DOCUMENTS and method not in READS:
        query = view.request.query
        if "wm" in query or "writeMode" in query:
            return WRITE_MODE
    return None


def _is_management(type: ResourceType, method: str) -> bool:
    if type in _MANAGED:
        return True
    if type in (ResourceType.DATABASE, ResourceType.ROOT):
        return method not in READS
    return type is ResourceType.COLLECTION and method not in READS and method != "POST"


async def resolve_conditions(conditions: Conditions, rule: str, view: RequestView) -> Permission:
    """Resolve the conditions for this request; raises `Unresolved`."""
    if conditions.has_filters:
        return await _resolve_filters(conditions, rule, view)
    return Permission(
        rule=rule,
        properties=conditions.properties,
        namespace=_namespace(view.resource),
        project_response=conditions.project_response,
    )


async def _resolve_filters(conditions: Conditions, rule: str, view: RequestView) -> Permission:
    reading = view.request.method in READS or view.resource is None
    namespace = _namespace(view.resource)
    plain = await _render_row(conditions.read_filter, "readFilter", view, reading=reading)
    rows = await _resolve_rows(conditions, view, reading=reading)
    if namespace is not None and plain is not None:
        other = rows.get(namespace)
        rows[namespace] = {"$and": [other, plain]} if other else plain
    properties = conditions.properties
    write_filter = merge_request = None
    if not reading:
        write_filter = await _render(conditions.write_filter, "writeFilter", view)
        merge_request = await _render(conditions.merge_request, "mergeRequest", view)
        trusted = _trust(writeFilter=write_filter, mergeRequest=merge_request)
        properties = {**properties, **trusted}
    return Permission(
        rule=rule,
        read_filter=plain,
        read_filters=rows,
        properties=properties,
        namespace=namespace,
        write_filter=write_filter,
        merge_request=merge_request,
        project_response=conditions.project_response,
        variables=conditions.variables,
    )


def _namespace(resource: Resource | None) -> str | None:
    if resource is None or resource.db is None or resource.collection is None:
        return None
    return namespace_of(resource.db, resource.collection)


async def _resolve_rows(
    conditions: Conditions, view: RequestView, *, reading: bool
) -> dict[str, Mapping[str, Any]]:
    return {
        name: await _render_row(template, f"readFilters.{name}", view, reading=reading)
        for name, template in conditions.read_filters.items()
    }


async def _render_row(
    template: Template | None, place: str, view: RequestView, *, reading: bool
) -> Any:
    try:
        return await _render(template, place, view)
    except Unresolved:
        if reading:
            raise
        return MATCH_NOTHING  # the caller can still write, and reads nothing back


async def _render(template: Template | None, place: str, view: RequestView) -> Any:
    if template is None:
        return None
    if template.is_constant:
        return template.source
    variables = await view.supply_all(template.names)
    if view.resource is not None and view.resource.type is ResourceType.STREAM:
        variables = variables.mark_moments()  # the filter decides about later events, too
    try:
        return template.render(Scope(variables=variables))
    except NotBound as error:
        raise Unresolved(f"mongo.{place} needs {error.name}, which has no value") from None
    except (QueryError, SecurityViolation) as error:
        raise Unresolved(f"mongo.{place} cannot be resolved: {error.message}") from None


def _trust(**filters: Any) -> dict[str, TrustedDocument]:
    return {name: TrustedDocument(value) for name, value in filters.items() if value is not None}
