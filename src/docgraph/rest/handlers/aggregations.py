"""`GET /<collection>/_aggrs/<uri>`: a stored aggregation is run with the caller's variables.

The row filters of the caller's permission stand in front of the pipeline and inside its joins; what
the permission does not show is taken away before the first stage. Results are bounded in number and
size: there is no paging but that of the pipeline itself, by `@skip` and `@limit`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar, Final

from docgraph.codec import as_meant
from docgraph.exchange import Answer, Body, Deadline, Document, Permission, ResourceType
from docgraph.exchange.errors import (
    AnswerTooLarge,
    NotFound,
    QueryError,
    SecurityViolation,
    StoreError,
    StoreRejected,
)
from docgraph.rest.bodies.pipelines import Aggregation, find_aggregation
from docgraph.rest.call import JSON, Call, Handlers
from docgraph.rest.handlers.searches import check_text_search, searches_hidden
from docgraph.rest.lists import JsonList
from docgraph.rest.parameters.aggregation_variables import build_scope
from docgraph.store.guard.references import READING_MORE, nested_pipelines, read_reference
from docgraph.store.guard.shown import Shown, asks_for_hidden, build_projection, is_shown
from docgraph.store.guard.stages import has_key
from docgraph.store.names import namespace_of
from docgraph.variables import NotBound
from docgraph.variables.values import CallerDocument

__all__ = ["HANDLERS", "MOST_BYTES", "MOST_RESULTS", "hide_properties"]

MOST_RESULTS: Final = 100_000
MOST_BYTES: Final = 16 * 1024 * 1024
_MOST_SHOWN: Final = f"{MOST_BYTES // 1024 // 1024} MiB"

_SEARCHES: Final = frozenset({"$search", "$searchMeta", "$vectorSearch"})
_FIRST: Final = _SEARCHES | {"$geoNear", "$documents"}
_TEXT: Final = frozenset({"$text"})

Stages = Sequence[Mapping[str, Any]]


class AggregationFailed(QueryError):
    """The database could not run the pipeline, or it gives too much."""

    status: ClassVar[int] = 422
    code: ClassVar[str] = "aggregation-failed"


async def _get(call: Call) -> Answer:
    await call.require_collection()
    metadata = await call.find_metadata(call.collection)
    aggregation = find_aggregation(as_meant(metadata or {}), call.resource.id)
    if aggregation is None:
        raise NotFound("query does not exist", hint=f"'{call.resource.id}' is not among its aggrs")
    namespace = namespace_of(call.db, call.collection)
    if shown := find_shown(call.exchange.permission, namespace):
        await check_text_search(call, aggregation.stages.source, shown)
    results = await _run(call, aggregation, await _render(call, aggregation))
    return Body(200, results.render(), JSON)


async def _render(call: Call, aggregation: Aggregation) -> list[Document]:
    """The pipeline with the variables of this request in it."""
    template, resolvers = aggregation.stages, call.context.resolvers
    scope = await build_scope(template.names, call.exchange, resolvers, call.parameters)
    try:
        stages: list[Document] = template.render(scope)
    except NotBound as error:
        raise _unbound(error) from None
    return stages


def _unbound(error: NotBound) -> NotBound:
    """The same error in the words of this API."""
    error.message = f"cannot execute aggregation: variable {error.name} not bound"
    error.hint = (
        f'give it by avars={{"{error.name}": …}}'
        if not error.name.startswith("@")
        else f'give it a default: {{"$var": ["{error.name}", null]}}'
    )
    return error


async def _run(call: Call, aggregation: Aggregation, stages: Stages) -> JsonList:
    permission = call.exchange.permission
    results = JsonList(call.parameters.json_mode, MOST_BYTES)
    try:
        await call.context.store.aggregate(
            call.db,
            call.collection,
            hide_properties(stages, permission, namespace_of(call.db, call.collection)),
            limit=MOST_RESULTS + 1,
            deadline=Deadline.after_ms(call.context.settings.aggregation_time_limit),
            allow_disk_use=aggregation.allow_disk_use,
            comment={"request": call.exchange.id, "operation": aggregation.uri},
            rows=call.rows,
            consistency=call.consistency,
            one_batch=True,
            take=results.add,
        )
    except AnswerTooLarge:
        raise _too_much(_MOST_SHOWN) from None
    except SecurityViolation as error:
        raise SecurityViolation(
            f"aggregation pipeline security violation: {error.message}", hint=error.hint
        ) from None
    except StoreError as error:
        # Of the database's errors, those about the pipeline: not that it is away or out of time.
        if type(error) not in (StoreError, StoreRejected):
            raise
        raise AggregationFailed(
            f"error executing aggregation: {error.message}", hint=error.hint
        ) from error
    if results.count > MOST_RESULTS:
        raise _too_much(f"{MOST_RESULTS} results")
    return results


def _too_much(bound: str) -> AggregationFailed:
    return AggregationFailed(
        f"error executing aggregation: it gives more than {bound}",
        hint='let the pipeline end in {"$skip": {"$var": "@skip"}}, {"$limit": {"$var": "@limit"}}',
    )


def hide_properties(stages: Stages, permission: Permission | None, namespace: str) -> Stages:
    """The pipeline on documents without what `projectResponse` of the permission does not show.

    Wherever the pipeline reads the collection of the permission: joins with itself included.
    """
    shown = find_shown(permission, namespace)
    if not shown:
        return stages
    return _put_in_front(_hide_inside(stages, shown, namespace), shown)


def find_shown(permission: Permission | None, namespace: str) -> Shown | None:
    """What the permission shows of the collection; None: everything."""
    if permission is None or permission.namespace != namespace:
        return None
    return permission.project_response


def _check_first(stages: Stages, shown: Shown) -> None:
    """Nothing is hidden yet from a stage that has to be the first: its filter may not use it.

    A text index may hold everything; its author may search it, a caller brings no search, and
    words for one only where all of the index is shown (`check_text_search`).
    """
    if not stages or not _must_be_first(stages[0]):
        return
    ((name, body),) = stages[0].items()
    asks = False
    if name == "$match":
        asks = asks_for_hidden(body, shown, besides=_TEXT)
    elif name == "$geoNear":
        asks = not isinstance(body, Mapping) or _locates_hidden(body, shown)
    elif name in _SEARCHES:
        asks = searches_hidden(body, shown)
    if asks or any(has_key(one, _TEXT) for one in _find_callers(body)):
        raise SecurityViolation("the first stage would tell properties that this permission hides")


def _locates_hidden(body: Mapping[str, Any], shown: Shown) -> bool:
    """Whether distances, which tell a place, are those to a hidden one; no `key`: to any."""
    key = body.get("key")
    is_open = isinstance(key, str) and is_shown(key, shown)
    return not is_open or asks_for_hidden(body.get("query", {}), shown)


def _find_callers(value: Any) -> Iterator[CallerDocument]:
    """The documents of the caller inside a stage."""
    if isinstance(value, CallerDocument):
        yield value
    elif isinstance(value, Mapping | list):
        for inner in value.values() if isinstance(value, Mapping) else value:
            yield from _find_callers(inner)


def _put_in_front(stages: Stages, shown: Shown) -> Stages:
    _check_first(stages, shown)
    front = 1 if stages and _must_be_first(stages[0]) else 0
    return [*stages[:front], {"$project": build_projection(shown)}, *stages[front:]]


def _hide_inside(stages: Stages, shown: Shown, namespace: str) -> Stages:
    return [_hide_in_stage(stage, shown, namespace) for stage in stages]


def _hide_in_stage(stage: Mapping[str, Any], shown: Shown, namespace: str) -> Mapping[str, Any]:
    ((name, body),) = stage.items()
    if name not in READING_MORE:
        return stage
    nested = {
        place: _hide_inside(pipeline, shown, namespace)
        for place, pipeline in nested_pipelines(name, body)
    }
    if _reads(name, body, namespace):
        if name == "$graphLookup":
            raise SecurityViolation(
                "$graphLookup would show properties that this permission hides",
                hint="join by $lookup",
            )
        _check_join(body, shown)
        nested = {"pipeline": _put_in_front(nested.get("pipeline", ()), shown)}
        body = body if isinstance(body, Mapping) else {"coll": body}
    return {name: {**body, **nested}} if nested else stage


def _check_join(body: Any, shown: Shown) -> None:
    """`foreignField` is compared before the pipeline of a join hides anything."""
    field = body.get("foreignField") if isinstance(body, Mapping) else None
    if field is not None and not (isinstance(field, str) and is_shown(field, shown)):
        raise SecurityViolation("a join would tell properties that this permission hides")


def _reads(name: str, body: Any, namespace: str) -> bool:
    db = namespace.partition(".")[0]
    reference = read_reference(name, body, db, name)
    return reference is not None and namespace_of(reference.db, reference.collection) == namespace


def _must_be_first(stage: Mapping[str, Any]) -> bool:
    ((name, body),) = stage.items()
    return name in _FIRST or (name == "$match" and has_key(body, _TEXT))


HANDLERS: Handlers = {(ResourceType.AGGREGATION, "GET"): _get}
