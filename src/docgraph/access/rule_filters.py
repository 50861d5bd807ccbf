"""The row filters that rules put on given collections: which filters an index has to serve."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from docgraph.access.language.function import reach_of
from docgraph.access.rule import Conditions, Rule
from docgraph.exchange import Resource, ResourceType
from docgraph.rest.sections import Mongo
from docgraph.store.guard.row_filters import RowFilter
from docgraph.store.mounts import find_paths


def find_row_filters(
    rules: Iterable[Rule], places: Iterable[tuple[str, str]], mongo: Mongo
) -> Iterator[RowFilter]:
    """Return the filters of the rules on these collections.

    `readFilters` names its collections. The other two apply to the collection of a request, so that
    a rule counts for each collection with a path at which its predicate could be true.
    """
    collections = list(places)
    for rule in rules:
        conditions = rule.conditions
        for namespace, template in conditions.read_filters.items():
            db, _, collection = namespace.partition(".")
            if (db, collection) in collections:
                part = f"mongo.readFilters.{namespace}"
                yield RowFilter((db, collection), str(rule), part, template.source)
        for part, filter in _list_plain(conditions):
            for place in collections:
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
