"""Permission rule (RBAC, ABAC): roles, predicate, conditions (the `mongo` block) and priority.

One model for rules of a file and of the database. The conditions are row filters, merged values,
hidden properties and flags. The four flags are a part of matching: a rule without the flag that a
request needs does not match it. The filters are resolved once per request, with the variables of
its caller; a missing variable denies the request, since a filter without its value would be a
different filter.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from itertools import chain
from operator import itemgetter
from types import MappingProxyType
from typing import Any, Final

from docgraph.access.language import Predicate, RequestView
from docgraph.access.language.function import Reach
from docgraph.codec import name_id
from docgraph.codec.bson_types import ObjectId
from docgraph.exchange import Account, Permission, Resource, ResourceType
from docgraph.exchange.errors import QueryError, SecurityViolation
from docgraph.exchange.exchange import RowFilters
from docgraph.exchange.request import Segments
from docgraph.store.names import namespace_of
from docgraph.variables import (
    MATCH_NOTHING,
    NotBound,
    Scope,
    Template,
    TrustedDocument,
    UnknownOperator,
)

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
        has_filters = bool(self.read_filters) or any(template is not None for template in templates)
        reads = (self.read_filter, *self.read_filters.values())
        names = frozenset[str]().union(
            *(template.names for template in reads if template is not None)
        )
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
    namespace = None
    if view.resource is not None:
        namespace = _namespace(view.resource)
    if not conditions.has_filters:
        return Permission(
            rule=rule,
            properties=conditions.properties,
            namespace=namespace,
            project_response=conditions.project_response,
        )
    reading = view.request.method in READS or view.resource is None
    plain, rows = None, RowFilters()
    if conditions.read_filter is not None:
        plain = await _render(conditions.read_filter, "readFilter", view, is_of_write=not reading)
    for name, template in conditions.read_filters.items():
        rows[name] = await _render(template, f"readFilters.{name}", view, is_of_write=not reading)
    if namespace is not None and plain is not None:
        rows.unnamed = frozenset({namespace} - conditions.read_filters.keys())
        other = rows.get(namespace)
        rows[namespace] = {"$and": [other, plain]} if other else plain
    properties = conditions.properties
    write_filter = merge_request = None
    if not reading:
        if conditions.write_filter is not None:
            write_filter = await _render(conditions.write_filter, "writeFilter", view)
        if conditions.merge_request is not None:
            merge_request = await _render(conditions.merge_request, "mergeRequest", view)
        given = {"writeFilter": write_filter, "mergeRequest": merge_request}
        trusted = {
            key: TrustedDocument(condition)
            for key, condition in given.items()
            if condition is not None
        }
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


async def _render(
    template: Template, place: str, view: RequestView, *, is_of_write: bool = False
) -> Any:
    """Render a filter or value of `mongo`.

    With a row filter that has no value, a write `is_of_write` is still possible: it reads nothing
    back.
    """
    if not template.names and not template.foreign_keys:  # it is constant
        return template.source
    variables = await view.supply_all(template.names)
    if view.resource is not None and view.resource.type is ResourceType.STREAM:
        variables = variables.mark_moments()  # the filter decides about later events, too
    try:
        return template.render(Scope(variables=variables))
    except (NotBound, QueryError, SecurityViolation) as error:
        if is_of_write:
            return MATCH_NOTHING
        if not isinstance(error, NotBound):
            raise Unresolved(f"mongo.{place} cannot be resolved: {error.message}") from None
        is_of_user = error.name.startswith("@user") and view.request.account is not None
        lack = "this user does not have" if is_of_user else "has no value"
        raise Unresolved(f"mongo.{place} needs {error.name}, which {lack}") from None


UNAUTHENTICATED: Final = "$unauthenticated"  # every caller
AUTHENTICATED: Final = "$authenticated"  # every authenticated user
_GENERAL: Final = {AUTHENTICATED: 1, UNAUTHENTICATED: 2}


class RuleOrigin(StrEnum):
    """The source of a rule."""

    DATABASE = "database"
    FILE = "file"


@dataclass(frozen=True, slots=True, eq=False)
class Rule:
    """A compiled rule; `position` is its position in the list of a file.

    `document` is its source text, for display; `unknown_operators` are those of its filters that
    only the database may know.
    """

    id: Any
    source: RuleOrigin
    roles: frozenset[str]
    predicate: Predicate
    priority: float | None = None
    conditions: Conditions = field(default_factory=Conditions)
    position: int = 0
    document: Mapping[str, Any] = field(default_factory=dict, repr=False)
    unknown_operators: tuple[UnknownOperator, ...] = ()
    label: str = field(init=False)  # built once: every request that it permits names it

    def __post_init__(self) -> None:
        name = f"permissions[{self.position}]" if self.id is None else name_id(self.id)
        object.__setattr__(self, "label", f"{name} ({self.source})")

    def __str__(self) -> str:
        return self.label

    def rank_for(self, roles: tuple[str, ...]) -> tuple[Any, ...]:
        """Return the sort key of decision 38: rules for roles, for authenticated users, for all.

        The highest rank is evaluated first.
        """
        return (-min(map(_generality, self.roles.intersection(roles))), *self.rank)

    def rank_by_role(self, roles: tuple[str, ...]) -> tuple[Any, ...]:
        """Return the sort key of `acl.first-role-wins`: by the first of these roles, then by rank.

        General roles are the last ones of a caller (`roles_of`).
        """
        return (-min(map(roles.index, self.roles.intersection(roles))), *self.rank)

    def rank_file_first(self, roles: tuple[str, ...]) -> tuple[Any, ...]:
        """Return the sort key of `acl.order: file-first`, to be followed by another one.

        General rules stay last, so that those of the file never replace a rule for a role.
        """
        is_file = self.source is RuleOrigin.FILE
        return (-min(map(_generality, self.roles.intersection(roles))), is_file)

    def shares_callers(self, other: Rule) -> bool:
        """Return whether some caller has both as rules for roles, or both as general ones."""
        classes, others = (set(map(_generality, rule.roles)) for rule in (self, other))
        return not classes.isdisjoint(others)

    @property
    def is_general(self) -> bool:
        """Whether the rule applies to callers regardless of their roles."""
        return all(map(_generality, self.roles))

    @property
    def rank(self) -> tuple[Any, ...]:
        """Decision 38: the highest priority first, none last; then the database before the file.

        Of equal rules the last one is first: the highest `_id`, or in a file the last of the list.
        """
        number = -math.inf if self.priority is None else self.priority
        if self.source is RuleOrigin.FILE:
            return (number, 0, self.position)
        return (number, 1, *_order(self.id), self.position)


def _generality(role: str) -> int:
    return _GENERAL.get(role, 0)


def _order(id: Any) -> tuple[int, Any]:
    """Return a sort key: ids of one type compare directly, types in the order of the database."""
    match id:
        case None:
            return (0, "")
        case bool():
            return (5, id)
        case int() | float():
            return (1, id)
        case str():
            return (2, id)
        case ObjectId():
            return (4, str(id))
        case datetime():
            return (6, id.timestamp())
    return (3, str(id))  # objects and bytes


def roles_of(account: Account | None) -> tuple[str, ...]:
    """Return the roles that rules see; the two with a dollar exist only here."""
    if account is None:
        return (UNAUTHENTICATED,)
    return (*account.roles, AUTHENTICATED, UNAUTHENTICATED)


_METHODS: Final = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
_OTHER: Final = ""  # the table of all other methods

Placed = tuple[int, Rule]  # a rule and its position in the list


class RuleIndex:
    """A list of rules in evaluation order; `select` omits rules that cannot match.

    A rule is filed under the path prefixes below which its predicate can be true (`Reach`), in one
    table per method; a request checks the few prefixes of its own path. The index does not affect
    which rule decides: the order stays that of the list.
    """

    __slots__ = ("_tables", "rules")

    def __init__(self, rules: tuple[Rule, ...]) -> None:
        self.rules = rules
        self._tables: dict[str, _PrefixTable] = {}

    def select(self, method: str, segments: Segments) -> Sequence[Placed]:
        """Return the rules whose predicates could be true there, in the order of the list."""
        name = method if method in _METHODS else _OTHER
        table = self._tables.get(name)
        if table is None:
            table = self._tables[name] = _PrefixTable(self.rules, name)
        return table.select(segments)


class _PrefixTable:
    """The rules of one method by path prefix."""

    __slots__ = ("_lengths", "_places")

    def __init__(self, rules: tuple[Rule, ...], method: str) -> None:
        self._places: dict[Segments, list[Placed]] = {}
        for placed in enumerate(rules):
            reach = placed[1].predicate.reach
            if _concerns(reach, method):
                for prefix in reach.prefixes:
                    self._places.setdefault(prefix, []).append(placed)
        self._lengths = sorted({len(prefix) for prefix in self._places})

    def select(self, segments: Segments) -> Sequence[Placed]:
        # No prefix of a rule is a prefix of another one of it, so no rule is found twice.
        depth = len(segments)
        selected = [
            placed
            for length in self._lengths
            if length <= depth and (placed := self._places.get(segments[:length])) is not None
        ]
        if len(selected) == 1:
            return selected[0]
        return sorted(chain.from_iterable(selected), key=itemgetter(0)) if selected else ()


def _concerns(reach: Reach, method: str) -> bool:
    if reach.methods is None:
        return True
    return not reach.methods <= _METHODS if method == _OTHER else method in reach.methods
