"""Indexes for row filters: what the stored rules need (`docgraph acl check`)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable
from typing import Final

from docgraph.access.rule import Rule, RuleOrigin
from docgraph.access.rule_warnings import find_row_filters
from docgraph.cli.acl.rules import RuleCollection
from docgraph.cli.terminal import notice
from docgraph.exchange import Deadline, DocgraphError
from docgraph.exchange.errors import StoreUnavailable
from docgraph.rest.sections import Mongo
from docgraph.store.catalog import Catalog
from docgraph.store.mounts import split_mount
from docgraph.workbench.advise.advice import Advice
from docgraph.workbench.advise.advise import AdviceScope, advise_rows

_SAMPLE: Final = 100
_SECONDS: Final = 20.0
_LIST_MS: Final = 6_000

Place = tuple[str, str]


async def find_missing_indexes(rules: RuleCollection) -> list[Advice]:
    """Return advice on the indexes of collections that stored rules filter."""
    values = rules.app.plugins.values
    stored = [
        one for one in await values["acl-rules"].find_all() if one.source is RuleOrigin.DATABASE
    ]
    filtered = [one for one in stored if one.conditions.has_filters]
    mongo = values["configuration"].get(Mongo.section_name) or Mongo()
    try:
        places = [one async for one in _find_places(rules, filtered, mongo)]
        rows = list(find_row_filters(filtered, dict.fromkeys(places), mongo))
        scope = AdviceScope(_SAMPLE, _SECONDS, rows=rows, run=asyncio.to_thread)
        return (await advise_rows(rules.app.store, scope)).advice
    except StoreUnavailable:
        raise
    except DocgraphError as error:
        notice(f"the indexes for row filters could not be checked: {error.message}")
        return []


async def _find_places(
    rules: RuleCollection, filtered: Iterable[Rule], mongo: Mongo
) -> AsyncIterator[Place]:
    """Yield the collections that `readFilters` names, and those of mounted databases."""
    for rule in filtered:
        for namespace in rule.conditions.read_filters:
            db, _, collection = namespace.partition(".")
            yield db, collection
    if not any(one.conditions.read_filter or one.conditions.write_filter for one in filtered):
        return
    generations = rules.app.plugins.values["generations"]
    catalog = Catalog(rules.app.store, generations, ttl=0.0)
    mounts = [one for one in map(split_mount, mongo.mongo_mounts) if not one.is_template]
    named = {one.what[0] for one in mounts if one.what}
    if any(not one.what for one in mounts):
        named |= {*await catalog.list_databases(Deadline.after_ms(_LIST_MS))}
    for db in sorted(named):
        for collection in await catalog.list_collections(db, Deadline.after_ms(_LIST_MS)):
            yield db, collection
