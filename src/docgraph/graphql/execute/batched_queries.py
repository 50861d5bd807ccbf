"""Batched queries: the queries of many parents in few commands (no N+1).

A query is a find or a pipeline. A single query is sent as it is. Several are sent together: the
first as the pipeline of an aggregation, each other one in a `$unionWith`, every result tagged with
the number of its query. That works for every operator, sort, skip and limit, since each query runs
as it would alone. If the database rejects the combined command, the queries are sent one by one, so
that an invalid query fails only for its own parents.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any

from docgraph.exchange import Deadline, Document
from docgraph.exchange.errors import DocgraphError
from docgraph.graphql.errors import FieldFailure, describe_failure
from docgraph.graphql.execute.execution import Run
from docgraph.graphql.execute.window import Window
from docgraph.graphql.plan.plan_tree import Fetch
from docgraph.runtime.tasks import concurrently
from docgraph.store.driver.malformed import check_documents, reading_reply
from docgraph.variables.value_marks import narrow

BatchAnswer = list[Document] | FieldFailure

TOGETHER = 200  # queries in one command; a pipeline may have 1 000 stages
ALONE = 1_000  # queries that are sent one by one when they cannot be sent together

# Results of these stages have one or two small fields.
_SMALL = frozenset({"$count", "$sortByCount"})
_CHOOSING = frozenset({"$sort", "$skip", "$limit", "$sample"})


@dataclass(frozen=True, slots=True)
class Find:
    """A filter and a window."""

    filter: Mapping[str, Any]
    window: Window

    @property
    def limit(self) -> int:
        """The maximum number of results."""
        return self.window.size

    def as_stages(self, fetch: Fetch) -> list[Document]:
        """Return the query as stages of a pipeline."""
        window = self.window
        return [{"$match": self.filter}, *window.stages, *window.project(fetch.projection)]

    async def send(self, fetch: Fetch, run: Run) -> BatchAnswer:
        """Send this query alone."""
        page = self.window.page
        if page is None or page.parts is None:
            if any(self.window.related):
                documents = await run.aggregate(fetch, self.as_stages(fetch), self.window.size)
            else:
                documents = await run.find(fetch, self.filter, self.window)
            return run.trim(documents, self.window.limit)
        documents = []
        for part in page.parts:  # one after the other; nearly always the first one is enough
            limit = self.window.limit - len(documents)
            window = self.window._replace(limit=limit, page=replace(page, parts=(part,)))
            if any(window.related):
                stages = replace(self, window=window).as_stages(fetch)
                documents += await run.aggregate(fetch, stages, window.size)
            else:
                documents += await run.find(fetch, self.filter, window)
            if len(documents) == self.window.limit:
                break
        return documents

    def check(self, documents: list[Document], run: Run) -> BatchAnswer:
        """Return the documents within the limit."""
        return run.trim(documents, self.window.limit)

    def narrow(self) -> list[Find]:
        """Return the queries for each kind of an `ID`, unless sort or skip choose a document."""
        if self.window.sort or self.window.skip:
            return []
        return [replace(self, filter=filter_) for filter_ in narrow(self.filter)]

    def widen(self) -> Find:
        """Return the query with a limit of two documents, to detect a second one."""
        return replace(self, window=self.window._replace(limit=2))


@dataclass(frozen=True, slots=True)
class AggregateQuery:
    """Stages; `limit` results are requested, and more than `max_results` are an error.

    `may_be_cut`: a limit of the mapping cuts them instead. Without a `deadline` it is that of the
    request.
    """

    stages: Sequence[Document]
    limit: int
    max_results: int
    may_be_cut: bool = False
    deadline: Deadline | None = None

    def as_stages(self, fetch: Fetch) -> list[Document]:
        """Return the stages, bounded; of each result only the needed fields (decision 15)."""
        stages = [*self.stages, {"$limit": self.limit}]
        if fetch.projection is not None and not _SMALL.intersection(self.stages[-1]):
            stages.append({"$project": fetch.projection})
        return stages

    async def send(self, fetch: Fetch, run: Run) -> BatchAnswer:
        """Send this query alone."""
        stages = self.as_stages(fetch)
        results = await run.aggregate(fetch, stages, self.limit, self.deadline)
        return self.check(results, run)

    def narrow(self) -> list[AggregateQuery]:
        """Return the queries for each kind of an `ID`, unless a stage chooses a document."""
        if any(not _CHOOSING.isdisjoint(stage) for stage in self.stages):
            return []
        return [replace(self, stages=stages) for stages in narrow(self.stages)]

    def widen(self) -> AggregateQuery:
        """Return the query with a limit of two results, to detect a second one."""
        return replace(self, limit=2, max_results=2)

    def check(self, results: list[Document], run: Run) -> BatchAnswer:
        """Return the results, or a failure if there are too many (decision 12)."""
        if self.may_be_cut or len(results) <= self.max_results:
            return run.trim(results, self.max_results)
        return FieldFailure(
            f"the aggregation gives more than {self.max_results} results", "too-many-results"
        )


BatchedQuery = Find | AggregateQuery


async def send_all(fetch: Fetch, queries: Sequence[BatchedQuery], run: Run) -> list[BatchAnswer]:
    """Return the answers to all queries, in their order."""
    if len(queries) == 1:
        return [await send_alone(fetch, queries[0], run)]
    loader = fetch.mapping.loader
    if not loader.batching:
        return await _send_each(fetch, queries, run)
    size = min(loader.max_batch_size or TOGETHER, TOGETHER)
    parts = [queries[start : start + size] for start in range(0, len(queries), size)]
    answers = await concurrently([_send_together(fetch, part, run) for part in parts])
    return [answer for part in answers for answer in part]


async def send_alone(fetch: Fetch, query: BatchedQuery, run: Run) -> BatchAnswer:
    """Return the answer to a query that is sent alone."""
    try:
        is_certain = fetch.is_list or not query.narrow()
        answer = await (query.send(fetch, run) if is_certain else _prefer(fetch, query, run))
    except DocgraphError as error:
        return describe_failure(error)
    if isinstance(answer, list):
        run.count(len(answer))
    return answer


async def _prefer(fetch: Fetch, query: BatchedQuery, run: Run) -> BatchAnswer:
    """Return one document: of several with the same text, that of the preferred kind."""
    answer = await query.widen().send(fetch, run)
    while isinstance(answer, list) and len(answer) > 1 and (kinds := query.narrow()):
        for kind in kinds:
            query, answer = kind, await kind.widen().send(fetch, run)
            if answer:
                break
    return answer[:1] if isinstance(answer, list) else answer


async def _send_each(fetch: Fetch, queries: Sequence[BatchedQuery], run: Run) -> list[BatchAnswer]:
    if len(queries) > ALONE:
        text = f"{fetch.position.coordinates} needs more than {ALONE} commands"
        return [FieldFailure(text, "too-many-commands")] * len(queries)
    return await concurrently([send_alone(fetch, query, run) for query in queries])


async def _send_together(
    fetch: Fetch, queries: Sequence[BatchedQuery], run: Run
) -> list[BatchAnswer]:
    if len(queries) == 1:
        return [await send_alone(fetch, queries[0], run)]
    is_uncertain = [not fetch.is_list and bool(query.narrow()) for query in queries]
    sent = [
        query.widen() if wide else query for query, wide in zip(queries, is_uncertain, strict=True)
    ]
    pipeline = _tag(sent[0].as_stages(fetch), 0)
    for number, query in enumerate(sent[1:], 1):
        union = {"coll": fetch.mapping.collection, "pipeline": _tag(query.as_stages(fetch), number)}
        pipeline.append({"$unionWith": union})
    extra = run.extra * len(queries)  # which are not counted
    limit = min(sum(query.limit for query in sent), run.remaining + 1 + extra)
    try:
        deadline = getattr(queries[0], "deadline", None)
        results = await run.aggregate(fetch, pipeline, limit, deadline)
    except DocgraphError as error:
        describe_failure(error)  # raises errors that end the request
        return await _send_each(fetch, queries, run)
    answers: list[list[Document]] = [[] for _ in queries]
    with reading_reply():
        for result in results:
            answers[result["query"]].append(result["document"])
        check_documents(chain.from_iterable(answers))
    checked = [query.check(answer, run) for query, answer in zip(sent, answers, strict=True)]
    pairs = zip(answers, checked, strict=True)
    dropped = sum(len(whole) - len(answer) for whole, answer in pairs if isinstance(answer, list))
    run.count(len(results) - dropped)
    again = [n for n, wide in enumerate(is_uncertain) if wide and len(answers[n]) > 1]
    if again:
        preferred = await _send_each(fetch, [queries[number] for number in again], run)
        for number, answer in zip(again, preferred, strict=True):
            checked[number] = answer
    return checked


def _tag(stages: Sequence[Document], number: int) -> list[Document]:
    """Return the stages, with the number of the query around each result."""
    tag = {"query": {"$literal": number}, "document": "$$ROOT"}
    return [*stages, {"$replaceWith": tag}]
