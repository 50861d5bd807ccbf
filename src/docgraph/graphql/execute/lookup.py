"""Joins by `$lookup`: one command for parents that have very many documents each.

The keys of the parents are documents inside the command, and the database looks up for each of them
as many documents as its parent needs. It costs more per parent than one `$in`, but nothing for
documents beyond the limit of each parent.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import chain
from typing import Any

from docgraph.codec.equality import EqualityKey
from docgraph.exchange import Document
from docgraph.exchange.errors import DocgraphError
from docgraph.graphql.conditions import combine, is_comparable, match_any
from docgraph.graphql.errors import describe_failure
from docgraph.graphql.execute.execution import Run
from docgraph.graphql.execute.window import Window
from docgraph.graphql.joins import Join
from docgraph.graphql.plan.plan_tree import Fetch
from docgraph.graphql.plan.relation import cut_path
from docgraph.store.driver.malformed import check_documents, reading_reply


async def fetch_by_lookup(
    fetch: Fetch,
    join: Join,
    wanted: Mapping[int, Mapping[EqualityKey, Any]],
    rest: Document,
    run: Run,
) -> dict[int, list[Document]] | None:
    """Return the documents of each parent; None if `$lookup` cannot give the right answer."""
    window = run.prepared[id(fetch)].window
    values = [value for keys in wanted.values() for value in keys.values()]
    # It does not join arrays as a filter would.
    if window is None or cut_path(join.path) != join.target:
        return None
    if any(type(value) is list or not is_comparable(value) for value in values):
        return None
    seekers: dict[tuple[EqualityKey, ...], list[int]] = {}
    sought: list[Document] = []
    for number, keys in wanted.items():
        sharing = seekers.setdefault(tuple(keys), [])
        if not sharing:
            sought.append({"n": len(sought), "keys": list(keys.values())})
        sharing.append(number)
    pipeline = _build_pipeline(fetch, join, sought, rest, window)
    run.record(fetch, combine([rest, match_any(join.target, values)]))
    extra = window.extra * len(sought)  # which are not counted
    limit = min(len(sought) * window.size, run.remaining + 1 + extra)
    try:
        results = await run.aggregate(fetch, pipeline, limit, is_recorded=True)
    except DocgraphError as error:
        describe_failure(error)  # raises errors that end the request
        return None
    groups: list[list[Document]] = [[] for _ in sought]
    with reading_reply():
        for result in results:
            groups[result["n"]].append(result["document"])
        check_documents(chain.from_iterable(groups))
    groups = [run.trim(documents, window.limit) for documents in groups]
    run.count(sum(map(len, groups)))
    pairs = zip(seekers.values(), groups, strict=True)
    return {number: documents for numbers, documents in pairs for number in numbers}


def _build_pipeline(
    fetch: Fetch, join: Join, sought: list[Document], rest: Document, window: Window
) -> list[Document]:
    inner: list[Document] = [{"$match": rest}] if rest else []
    inner += [*window.stages, *window.project(fetch.projection)]
    return [
        # One document to attach the keys to; an empty collection has nothing to find anyway.
        {"$limit": 1},
        {"$project": {"_id": 0, "sought": {"$literal": sought}}},
        {"$unwind": "$sought"},
        {
            "$lookup": {
                "from": fetch.mapping.collection,
                "localField": "sought.keys",
                "foreignField": join.target,
                "pipeline": inner,
                "as": "document",
            }
        },
        {"$unwind": "$document"},
        {"$project": {"n": "$sought.n", "document": 1}},
    ]
