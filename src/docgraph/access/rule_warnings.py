"""Warnings about permission rules: order that affects callers, row filters missing in GraphQL.

A rule for a role that the caller has precedes those for authenticated users and those for everyone
(decision 38). A filter of a general rule that is meant for all callers has to be repeated. Among
rules of equal priority the last one wins; where they differ in effect, that is often unintended.

`mongo.readFilter` of a rule (row-level security, tenants) protects the collection that a REST
request addresses; GraphQL needs `mongo.readFilters`. `access explain` reports a rule that has the
one without the other.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import groupby, islice
from typing import Any, ClassVar, Final

from docgraph.access.language.function import NOWHERE, reach_of
from docgraph.access.rule import READS, Conditions, Rule
from docgraph.access.rulebook import RuleBook
from docgraph.access.sections import Acl
from docgraph.access.view_rules import ViewWarning, find_view_warnings
from docgraph.codec import as_meant
from docgraph.config.section import PluginConfig
from docgraph.exchange import (
    Deadline,
    Document,
    Exchange,
    Permission,
    Request,
    Resource,
    ResourceType,
)
from docgraph.exchange.data import ESCAPING
from docgraph.exchange.request import Segments, encode_path, parse_path
from docgraph.graphql.sections import Graphql
from docgraph.observe import emit
from docgraph.observe.events import FilterPassed, RulesTied, ViewRefusedByRule
from docgraph.plugins.kinds import Initializer
from docgraph.plugins.registry import PluginRegistry
from docgraph.rest.sections import Mongo
from docgraph.store import RevealKey, Store
from docgraph.store.guard.references import find_reference
from docgraph.store.guard.row_filters import RowFilter
from docgraph.store.guard.shield import hide_marker
from docgraph.store.mounts import find_paths
from docgraph.store.names import namespace_of
from docgraph.store.views import RefusedView
from docgraph.variables import Flaw

_MAX_WARNINGS: Final = 50
_MAX_NAMED: Final = 5
_MAX_COMPARED: Final = 1000  # rules of one priority, in pairs


class RulesCheck(Initializer):
    """Warns at start about rules whose order affects what callers get."""

    name: ClassVar[str] = "aclRulesCheck"
    description: ClassVar[str] = "warns of rules whose order decides what callers get"

    def __init__(
        self,
        config: PluginConfig,
        *,
        acl_rules: RuleBook,
        registry: PluginRegistry,
        graphql: Graphql,
        mongo: Mongo,
        store: Store,
    ) -> None:
        self._book = acl_rules
        self._comparison = Comparison(graphql, mongo, store, acl_rules, registry)

    async def initialize(self) -> None:
        """Warn about each such rule."""
        rules = await self._book.find_all()
        for passed in islice(find_passed_filters(rules), _MAX_WARNINGS):
            emit(passed)
        ties = find_ties(rules, self._book.acl)
        for tie in islice(ties, _MAX_WARNINGS):
            emit(RulesTied(str(tie.rule), _name_some(tie.others)))
        found = await self._comparison.find_view_warnings(rules)
        for one in islice((one for one in found if one.other is None), _MAX_WARNINGS):
            emit(ViewRefusedByRule(str(one.rule), one.view, one.source))


def find_passed_filters(rules: Iterable[Rule]) -> Iterator[FilterPassed]:
    """Yield each general rule with conditions, and the role rules that can override it."""
    known = list(rules)
    special = [rule for rule in known if not rule.is_general]
    for rule in known:
        if not rule.is_general or not rule.conditions.narrow:
            continue
        reach = rule.predicate.reach
        passing = [one for one in special if one.predicate.reach & reach != NOWHERE]
        if passing:
            yield FilterPassed(str(rule), _name_some(passing))


@dataclass(frozen=True, slots=True)
class Tie:
    """A rule, and the rules of equal priority that follow it and differ in effect."""

    rule: Rule
    others: Sequence[Rule]

    def describe(self) -> Flaw:
        """Return the tie as a finding about the rule."""
        names = ", ".join(_name_some(self.others))
        what = f"is that of {names}, which can match the same requests with another effect"
        return Flaw(
            "priority", what, "this rule is evaluated first; give them different priorities"
        )


def find_ties(rules: Iterable[Rule], acl: Acl) -> Iterator[Tie]:
    """Yield rules that overlap, have equal priority and differ in effect; the winner first.

    Priorities are compared within a role only with `acl.first-role-wins`, and within a source only
    with `acl.order: file-first`.
    """
    ordered = sorted(rules, key=lambda rule: rule.rank, reverse=True)
    for _, group in groupby(ordered, key=lambda rule: rule.priority):
        compared = list(islice(group, _MAX_COMPARED))
        for number, rule in enumerate(compared, 1):
            others = [one for one in compared[number:] if _is_tied(rule, one, acl)]
            if others:
                yield Tie(rule, others)


def _is_tied(rule: Rule, other: Rule, acl: Acl) -> bool:
    by_role = acl.first_role_wins
    if acl.order == "file-first" and rule.source is not other.source:
        return False
    return (
        rule.conditions.effect != other.conditions.effect
        and (bool(rule.roles & other.roles) if by_role else rule.shares_callers(other))
        and rule.predicate.reach & other.predicate.reach != NOWHERE
    )


def _name_some(rules: Sequence[Rule]) -> tuple[str, ...]:
    more = [f"and {len(rules) - _MAX_NAMED} more"] * (len(rules) > _MAX_NAMED)
    return (*map(str, rules[:_MAX_NAMED]), *more)


_READ_MS: Final = 10_000
_READ: Final = frozenset(
    {
        ResourceType.COLLECTION,
        ResourceType.DOCUMENT,
        ResourceType.SIZE,
        ResourceType.AGGREGATION,
    }
)
_MAX_APPS: Final = 1000


@dataclass
class Comparison:
    """Compares the visible rows of a collection in REST and in GraphQL."""

    _graphql: Graphql
    _mongo: Mongo
    _store: Store
    _book: RuleBook
    _registry: PluginRegistry

    async def find_notes(self, exchange: Exchange) -> list[str]:
        """Return notes on row filters of the caller that apply in REST and not in GraphQL."""
        if exchange.permission is None:
            return []
        if exchange.service == "mongo":
            return [note async for note in self._compare_collection(exchange)]
        if exchange.service == "graphql":
            return [note async for note in self._compare_app(exchange)]
        return []

    async def find_view_warnings(self, rules: Sequence[Rule]) -> list[ViewWarning]:
        """Return the views that rules refuse, or that show rows which a rule filters."""

        async def read_apps() -> dict[Segments, set[str]]:
            base = parse_path(self._graphql.uri.encode())
            return {
                (*base, *parse_path(uri.encode())): set(find_namespaces(document))
                for uri, document in await self._read_apps()
            }

        return await find_view_warnings(rules, self._store, self._mongo, read_apps)

    async def find_refused_view(self, exchange: Exchange) -> RefusedView | None:
        """Return the view that the request itself would read and may not."""
        permission, parsed = exchange.permission, exchange.parsed
        resource = getattr(parsed, "resource", None)
        if permission is None or resource is None or exchange.request.method not in READS:
            return None
        if resource.type not in _READ or resource.db is None or resource.collection is None:
            return None
        place = (resource.db, resource.collection)
        views, deadline = self._store.reads.views, Deadline.after_ms(_READ_MS)
        return await views.find_refused(permission.read_filters, [place], deadline)

    async def _compare_collection(self, exchange: Exchange) -> AsyncIterator[str]:
        permission = exchange.permission
        if permission is None or permission.namespace not in permission.read_filters:
            return
        base = self._graphql.uri.rstrip("/")
        for uri, document in await self._read_apps():
            if permission.namespace in set(find_namespaces(document)):
                other = await self._permit(exchange, "graphql", "POST", f"{base}/{uri}")
                if other is not None and permission.namespace not in other.read_filters:
                    yield _describe_gap(permission.namespace, permission, uri, other)

    async def _compare_app(self, exchange: Exchange) -> AsyncIterator[str]:
        own = exchange.permission
        base = len(parse_path(self._graphql.uri.encode()))
        asked = "/".join(exchange.request.segments[base:])
        for uri, document in await self._read_apps():
            if uri != asked or own is None:
                continue
            views, read = self._store.reads.views, set(find_namespaces(document))
            for namespace in sorted(read):
                place, deadline = namespace.split(".", 1), Deadline.after_ms(_READ_MS)
                refused = await views.find_refused(
                    own.read_filters, [(place[0], place[1])], deadline
                )
                if refused is not None:
                    yield f"the app {uri} answers 403 where it reads {namespace}: {refused}"
            for namespace in sorted(read - own.read_filters.keys()):
                other = await self._permit(exchange, "mongo", "GET", self._find_path(namespace))
                if other is not None and namespace in other.read_filters:
                    yield _describe_gap(namespace, other, uri, own)

    async def _permit(
        self, exchange: Exchange, service: str, method: str, path: str | None
    ) -> Permission | None:
        """Return the permission of the same caller for another request."""
        if path is None:
            return None
        request = Request(method, path.encode())
        other = Exchange(request, exchange.id, account=exchange.account)
        server = self._registry.find(service)
        if server is None:
            return None
        other.service, other.parsed = service, server.parse(other)
        match = await self._book.match(other)
        return match.permission if match is not None else None

    def _find_path(self, namespace: str) -> str | None:
        """Return a path of the REST API that leads to the collection."""
        resource = Resource(ResourceType.COLLECTION, *namespace.split(".", 1))
        paths = find_paths(resource, self._mongo.mongo_mounts, self._mongo.uri)
        return next(map(encode_path, paths), None)

    @cached_property
    def _key(self) -> RevealKey:
        return hide_marker(self._store.guard, self._graphql.db, self._graphql.collection)

    async def _read_apps(self) -> list[tuple[str, Document]]:
        documents = await self._store.reads.find(
            self._graphql.db,
            self._graphql.collection,
            {"descriptor.enabled": {"$ne": False}},
            projection={"descriptor": 1, "mappings": 1, ESCAPING: 1},
            limit=_MAX_APPS,
            deadline=Deadline.after_ms(_READ_MS),
            reveal=(self._key,),
        )
        return [(_find_uri(one), as_meant(one)) for one in documents]


def _find_uri(document: Document) -> str:
    descriptor = document.get("descriptor")
    uri = descriptor.get("uri") if isinstance(descriptor, dict) else None
    return str(uri or document.get("_id")).strip("/")


def find_namespaces(value: Any, db: str | None = None) -> Iterator[str]:
    """Yield every collection that the mappings of a definition read."""
    if isinstance(value, list):
        for item in value:
            yield from find_namespaces(item, db)
    if not isinstance(value, dict):
        return
    if isinstance(value.get("db"), str) and isinstance(value.get("collection"), str):
        db = value["db"]
        yield namespace_of(value["db"], value["collection"])
    for key, inner in value.items():
        joined = find_reference(key, inner, db) if db is not None else None
        if joined is not None:
            yield namespace_of(joined.db, joined.collection)
        yield from find_namespaces(inner, db)


def _describe_gap(namespace: str, rest: Permission, uri: str, graphql: Permission) -> str:
    return (
        f"the rows of {namespace} are filtered in REST by the rule {rest.rule}, and not in the "
        f"GraphQL app {uri}, which the rule {graphql.rule} opens: give that rule "
        f'mongo.readFilters {{"{namespace}": …}}'
    )


def find_row_filters(
    rules: Iterable[Rule], places: Iterable[tuple[str, str]], mongo: Mongo
) -> Iterator[RowFilter]:
    """Return the filters of the rules on these collections.

    `readFilters` names its collections. The other two apply to the collection of a request, so that
    a rule counts for each collection with a path at which its predicate could be true.
    """
    known = list(places)
    for rule in rules:
        conditions = rule.conditions
        for namespace, template in conditions.read_filters.items():
            db, _, collection = namespace.partition(".")
            if (db, collection) in known:
                part = f"mongo.readFilters.{namespace}"
                yield RowFilter((db, collection), str(rule), part, template.source)
        for part, filter in _list_plain(conditions):
            for place in known:
                if _concerns(rule, place, mongo):
                    yield RowFilter(place, str(rule), part, filter)


def _list_plain(conditions: Conditions) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield `readFilter` and `writeFilter`; often they are equal, and one index serves both."""
    reads, writes = conditions.read_filter, conditions.write_filter
    if reads is not None:
        yield "mongo.readFilter", reads.source
    if writes is not None and (reads is None or reads.source != writes.source):
        yield "mongo.writeFilter", writes.source


def _concerns(rule: Rule, place: tuple[str, str], mongo: Mongo) -> bool:
    paths = find_paths(Resource(ResourceType.COLLECTION, *place), mongo.mongo_mounts, mongo.uri)
    return bool((rule.predicate.reach & reach_of(paths)).prefixes)
