"""Rules and views (decision 58): views that a rule refuses, and views that pass another's filter.

A rule with `readFilters` for a source of a view refuses the view, unless it names it. A rule with a
plain `readFilter` protects the requests for the source only: another rule, or GraphQL, can show the
same rows through the view.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from docgraph.access.language.function import reach_of
from docgraph.access.rule import Rule
from docgraph.exchange import Deadline, Resource, ResourceType
from docgraph.exchange.errors import QueryError
from docgraph.exchange.request import Segments
from docgraph.rest.sections import Mongo
from docgraph.store import Store
from docgraph.store.catalog import Inventory
from docgraph.store.guard.references import find_references
from docgraph.store.mounts import find_paths, split_mount
from docgraph.variables import Flaw

_LIST_MS: Final = 10_000

AppReads = Mapping[Segments, set[str]]  # the path of an app, and the collections that it reads
ReadApps = Callable[[], Awaitable[AppReads]]


class ViewWarning(NamedTuple):
    """A view that a rule refuses; with `other`, one that shows rows which that rule filters.

    `apps` are the paths of the apps that read the view under the rule.
    """

    rule: Rule
    view: str
    source: str
    other: Rule | None = None
    apps: tuple[Segments, ...] = ()

    def describe(self) -> Flaw:
        if self.other is None:
            return Flaw(
                "mongo.readFilters",
                f"does not name {self.view}, a view on {self.source}: reading it is 403",
                f'add "{self.view}" with a filter, or with {{}} for all of its rows',
            )
        return Flaw(
            "predicate",
            f"admits reads of {self.view}, a view that shows rows of {self.source} which "
            f"mongo.readFilter of {self.other} hides",
            f'add mongo.readFilters {{"{self.view}": …}}, or do not admit it',
        )


async def find_view_warnings(
    rules: Sequence[Rule], store: Store, mongo: Mongo, read_apps: ReadApps
) -> list[ViewWarning]:
    """Return the views that rules refuse, or that pass a plain `readFilter`."""
    filtering = [rule for rule in rules if _list_filtered(rule) or rule.conditions.read_filter]
    sources: dict[str, set[str]] = {}
    inventory = Inventory(store)
    for db in await _find_databases(filtering, mongo, inventory):
        sources |= await _load_sources(inventory, db)
    if not sources:
        return []
    survey = _Survey(filtering, mongo, await read_apps())
    return [
        warning
        for view in sorted(sources)
        for rule in rules
        for warning in survey.inspect(rule, view, sources[view])
    ]


def _list_filtered(rule: Rule) -> set[str]:
    return {name for name, template in rule.conditions.read_filters.items() if template.source}


async def _find_databases(
    filtering: Sequence[Rule], mongo: Mongo, inventory: Inventory
) -> list[str]:
    """Return the databases of filtered collections; a plain filter can be for any mounted one."""
    databases = {name.partition(".")[0] for rule in filtering for name in _list_filtered(rule)}
    if any(rule.conditions.read_filter is not None for rule in filtering):
        mounts = [mount for mount in map(split_mount, mongo.mongo_mounts) if not mount.is_template]
        databases |= {mount.what[0] for mount in mounts if mount.what}
        if any(not mount.what for mount in mounts):
            databases |= {*await inventory.list_databases(Deadline.after_ms(_LIST_MS))}
    return sorted(databases)


async def _load_sources(inventory: Inventory, db: str) -> dict[str, set[str]]:
    """Return everything that each view of a database reads, also through other views."""
    direct: dict[str, set[str]] = {}
    for collection in await inventory.list_collections(db, Deadline.after_ms(_LIST_MS)):
        if collection.kind == "view":
            try:
                references = [
                    f"{ref.db}.{ref.collection}" for ref in find_references(collection.stages, db)
                ]
            except QueryError:
                references = []
            direct[f"{db}.{collection.name}"] = {f"{db}.{collection.source}", *references}
    return {view: _reach_all(view, direct) for view in direct}


def _reach_all(view: str, direct: Mapping[str, set[str]]) -> set[str]:
    reached: set[str] = set()
    pending = direct[view]
    while pending:
        reached |= pending
        pending = {inner for name in pending for inner in direct.get(name, ())} - reached
    return reached


@dataclass(frozen=True, slots=True)
class _Survey:
    filtering: Sequence[Rule]
    mongo: Mongo
    apps: AppReads

    def inspect(self, rule: Rule, view: str, sources: set[str]) -> Iterator[ViewWarning]:
        """Yield what is wrong with a view under a rule that can admit reads of it."""
        if view in rule.conditions.read_filters:
            return
        by_rest = self._reaches(rule, view)
        apps = tuple(
            path
            for path, namespaces in self.apps.items()
            if view in namespaces and (rule.predicate.reach & reach_of([path])).prefixes
        )
        if not by_rest and not apps:
            return
        if refused := sources & _list_filtered(rule):
            yield ViewWarning(rule, view, min(refused), None, apps)
        elif apps or rule.conditions.read_filter is None:
            yield from self._find_passed(rule, view, sources, apps)

    def _find_passed(
        self, rule: Rule, view: str, sources: set[str], apps: tuple[Segments, ...]
    ) -> Iterator[ViewWarning]:
        for other in self.filtering:
            if other.conditions.read_filter is None or not rule.roles & other.roles:
                continue
            source = next((name for name in sorted(sources) if self._reaches(other, name)), None)
            if source is not None:
                yield ViewWarning(rule, view, source, other, apps)
                return

    def _reaches(self, rule: Rule, namespace: str) -> bool:
        """Return whether the rule can admit a request for the collection by REST."""
        resource = Resource(ResourceType.COLLECTION, *namespace.split(".", 1))
        paths = find_paths(resource, self.mongo.mongo_mounts, self.mongo.uri)
        return bool((rule.predicate.reach & reach_of(paths)).prefixes)
