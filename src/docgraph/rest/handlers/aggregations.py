"""Run a stored aggregation: `GET /<collection>/_aggrs/<uri>` with the caller's variables.

The row filters of the caller's permission come before the pipeline and inside its joins. Properties
that the permission hides are removed before the first stage. Results are bounded in number and
size. Pagination is up to the pipeline itself, with `@skip` and `@limit`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, ClassVar, Final

from docgraph.codec import as_meant
from docgraph.exchange import Answer, Body, Deadline, Document, Permission, ResourceType
from docgraph.exchange.data import Stages
from docgraph.exchange.errors import (
    AnswerTooLarge,
    NotFound,
    QueryError,
    SecurityViolation,
    StoreError,
    StoreRejected,
)
from docgraph.rest.aggregation_variables import build_scope
from docgraph.rest.call import JSON, Handlers, RestCall
from docgraph.rest.pipelines import Aggregation, find_aggregation
from docgraph.rest.streamed_lists import VARY, CsvList, JsonList, csv_headers
from docgraph.store.administration import Administration
from docgraph.store.guard.references import READING_MORE, change_nested, read_reference
from docgraph.store.guard.shown import Shown, asks_for_hidden, build_projection, is_shown
from docgraph.store.guard.stage_checks import has_key
from docgraph.store.names import namespace_of, walk
from docgraph.variables import REST, NotBound
from docgraph.variables.value_marks import CallerDocument

MAX_RESULTS: Final = 100_000
MAX_BYTES: Final = 16 * 1024 * 1024
_MAX_SHOWN: Final = f"{MAX_BYTES // 1024 // 1024} MiB"

_SEARCHES: Final = frozenset({"$search", "$searchMeta", "$vectorSearch"})
_FIRST: Final = _SEARCHES | {"$geoNear", "$documents"}
_TEXT: Final = frozenset({"$text"})


class AggregationFailed(QueryError):
    """The database could not run the pipeline, or its result is too large."""

    status: ClassVar[int] = 422
    code: ClassVar[str] = "aggregation-failed"


async def _get(call: RestCall) -> Answer:
    await call.require_collection()
    metadata = await call.find_metadata(call.collection)
    aggregation = find_aggregation(as_meant(metadata or {}), call.resource.id)
    if aggregation is None:
        raise NotFound("query does not exist", hint=f"'{call.resource.id}' is not among its aggrs")
    namespace = namespace_of(call.db, call.collection)
    if shown := find_shown(call.exchange.permission, namespace):
        await check_text_search(call, aggregation.stages.source, shown)
    stages = await _render(call, aggregation)
    if call.wants_csv:
        export = call.open_export(MAX_BYTES)
        read = _run(call, aggregation, stages, export)
        return await export.answer(read, csv_headers(aggregation.uri))
    mode, offload = call.parameters.json_mode, call.request.offload
    results = JsonList(mode, MAX_BYTES, offload, call.decode_documents)
    await _run(call, aggregation, stages, results)
    return Body(200, results.render(), JSON, [VARY])


async def _render(call: RestCall, aggregation: Aggregation) -> list[Document]:
    template, resolvers = aggregation.stages, call.context.resolvers
    scope = await build_scope(template.names, call.exchange, resolvers, call.parameters)
    try:
        stages: list[Document] = template.render(scope)
    except NotBound as error:  # in the terms of this API
        error.message = f"cannot execute aggregation: variable {error.name} not bound"
        error.hint = (
            f'give it by avars={{"{error.name}": …}}'
            if not error.name.startswith("@")
            else f'give it a default: {{"$var": ["{error.name}", null]}}'
        )
        raise
    return stages


async def _run(
    call: RestCall, aggregation: Aggregation, stages: Stages, results: JsonList | CsvList
) -> None:
    permission = call.exchange.permission
    deadline = Deadline.after_ms(call.context.settings.aggregation_time_limit)
    try:
        await call.context.store.reads.aggregate(
            call.db,
            call.collection,
            hide_properties(stages, permission, namespace_of(call.db, call.collection)),
            limit=MAX_RESULTS + 1,
            deadline=deadline._replace(patience=call.exchange.deadline.patience),
            allow_disk_use=aggregation.allow_disk_use,
            comment={"request": call.exchange.id, "operation": aggregation.uri},
            rows=call.rows,
            consistency=call.consistency,
            one_batch=True,
            take=results.receiver,
        )
    except AnswerTooLarge:
        raise _too_much(_MAX_SHOWN) from None
    except SecurityViolation as error:
        raise SecurityViolation(
            f"aggregation pipeline security violation: {error.message}", hint=error.hint
        ) from None
    except StoreError as error:
        # Only database errors about the pipeline: not that it is unavailable or timed out.
        if type(error) not in (StoreError, StoreRejected):
            raise
        raise AggregationFailed(
            f"error executing aggregation: {error.message}", hint=error.hint
        ) from error
    if results.count > MAX_RESULTS:
        raise _too_much(f"{MAX_RESULTS} results")


def _too_much(bound: str) -> AggregationFailed:
    return AggregationFailed(
        f"error executing aggregation: it gives more than {bound}",
        hint='let the pipeline end in {"$skip": {"$var": "@skip"}}, {"$limit": {"$var": "@limit"}}',
    )


def hide_properties(stages: Stages, permission: Permission | None, namespace: str) -> Stages:
    """Return the pipeline without the properties that `projectResponse` of the permission hides.

    This applies wherever the pipeline reads the collection of the permission, including joins with
    itself.
    """
    shown = find_shown(permission, namespace)
    if not shown:
        return stages
    return _put_in_front(_hide_inside(stages, shown, namespace), shown)


def find_shown(permission: Permission | None, namespace: str) -> Shown | None:
    """Return the properties that the permission shows of the collection; None: all of them."""
    if permission is None or permission.namespace != namespace:
        return None
    return permission.project_response


def _check_first(stages: Stages, shown: Shown) -> None:
    """Reject hidden properties in a stage that must be the first: nothing is removed before it.

    A text index may contain everything. The author may search it. A caller cannot send a search,
    and can send its words only if the whole index is shown (`check_text_search`).
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
    if asks or any(
        isinstance(part, CallerDocument) and has_key(part, _TEXT) for part in walk(body)
    ):
        raise SecurityViolation("the first stage would tell properties that this permission hides")


def _locates_hidden(body: Mapping[str, Any], shown: Shown) -> bool:
    """Check if distances, which reveal a location, refer to a hidden one; without `key`: to any."""
    key = body.get("key")
    is_open = isinstance(key, str) and is_shown(key, shown)
    return not is_open or asks_for_hidden(body.get("query", {}), shown)


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
    body = change_nested(name, body, lambda nested: _hide_inside(nested, shown, namespace))
    if _reads(name, body, namespace):
        if name == "$graphLookup":
            raise SecurityViolation(
                "$graphLookup would show properties that this permission hides",
                hint="join by $lookup",
            )
        # A join compares `foreignField` before its pipeline hides anything.
        field = body.get("foreignField") if isinstance(body, Mapping) else None
        if field is not None and not (isinstance(field, str) and is_shown(field, shown)):
            raise SecurityViolation("a join would tell properties that this permission hides")
        body = body if isinstance(body, Mapping) else {"coll": body}
        body = {**body, "pipeline": _put_in_front(body.get("pipeline") or (), shown)}
    return {name: body}


def _reads(name: str, body: Any, namespace: str) -> bool:
    db = namespace.partition(".")[0]
    reference = read_reference(name, body, db, name)
    return reference is not None and namespace_of(reference.db, reference.collection) == namespace


def _must_be_first(stage: Mapping[str, Any]) -> bool:
    ((name, body),) = stage.items()
    return name in _FIRST or (name == "$match" and has_key(body, _TEXT))


HANDLERS: Handlers = {(ResourceType.AGGREGATION, "GET"): _get}


_PATHS: Final = frozenset({"path", "defaultPath"})
_ANY_PATH: Final = frozenset({"queryString", "like"})  # they name properties in their own syntax


async def check_text_search(call: RestCall, source: Any, shown: Shown) -> None:
    """Reject `$text` with words of the caller, unless everything in its index is shown.

    A search uses everything that its index contains, regardless of what is shown afterwards. A
    caller who chooses the words could find out, one word after another, what the hidden properties
    contain. The author's own words reveal only what the author chose to reveal.
    """
    searches = _find_values(source, "$text")
    if not any(True for search in searches for _ in _find_values(search, REST.argument)):
        return
    indexes = await Administration(call.context.store).list_indexes(
        call.db, call.collection, call.exchange.deadline
    )
    held = [path for index in indexes for path in index.get("weights", ())]
    if not all(is_shown(path, shown) for path in held):
        raise SecurityViolation("the search would tell properties that this permission hides")


def searches_hidden(body: Any, shown: Shown) -> bool:
    """Check if the body of `$search`, or of a similar stage, uses a property that is not shown."""
    paths = [path for key in _PATHS for path in _find_values(body, key)]
    named = any(True for key in _ANY_PATH for _ in _find_values(body, key))
    return named or not paths or not all(_is_open(path, shown) for path in paths)


def _is_open(path: Any, shown: Shown) -> bool:
    if isinstance(path, list):
        return all(_is_open(element, shown) for element in path)
    if isinstance(path, Mapping):  # with an analyzer of its own, or a wildcard
        path = path.get("value")
    return isinstance(path, str) and is_shown(path, shown)


def _find_values(value: Any, wanted: str) -> Iterator[Any]:
    return (part[wanted] for part in walk(value) if isinstance(part, Mapping) and wanted in part)
