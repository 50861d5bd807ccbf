"""Answers of the GraphQL endpoint: an operation that was run, as JSON or CSV (decisions 22 and 24).

CSV is for apps that allow it (`descriptor.csv`): the one list of an operation. The columns are the
selected fields, those of nested objects as `author.name`. Which ones they are is known from the
plan: an operation that is no table is rejected before it is executed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from itertools import islice
from types import MappingProxyType
from typing import Any, Final, NamedTuple

import orjson
from graphql import GraphQLOutputType, get_named_type, is_list_type, is_non_null_type

from docgraph.codec.csv_table import (
    CSV,
    MAX_COLUMNS,
    CsvCells,
    Show,
    encode_line,
    quote_cell,
    render_disposition,
    show_json,
)
from docgraph.exchange import Body, DocgraphError
from docgraph.exchange.errors import DefinitionError, NotAcceptable, QueryError, RequestError
from docgraph.graphql.definition.inputs import build_bson
from docgraph.graphql.definition.scalars import SCALARS
from docgraph.graphql.errors import Classification, GraphqlError, OperationRefused, reject_length
from docgraph.graphql.execute.introspection_cache import IntrospectionCache
from docgraph.graphql.execute.result import CommandRecord, Result, encode_parts
from docgraph.graphql.freshness.recorder import DependencyRecorder
from docgraph.graphql.plan.plan import Plan
from docgraph.graphql.plan.plan_tree import Block, Selection
from docgraph.graphql.sections import GraphqlLimits
from docgraph.observe.tracing import current
from docgraph.runtime import allocations
from docgraph.runtime.allocations import embed_json


class RunOptions(NamedTuple):
    """How an operation is run; `is_raw`: the result may have JSON (bytes) in place of values."""

    limits: GraphqlLimits | None = None  # in place of those of the app
    answers: IntrospectionCache | None = None
    recorder: DependencyRecorder | None = None
    is_raw: bool = False
    planned: tuple[Plan, bool] | None = None  # the plan, and whether it was cached


class Ran(NamedTuple):
    """An operation that was run: its plan, its result, and whether the plan was cached.

    `freshness` is for explanations: what the answer depends on (`explain_freshness`).
    """

    plan: Plan
    result: Result
    kept: bool
    freshness: Mapping[str, Any] = MappingProxyType({})

    @property
    def commands(self) -> list[CommandRecord]:
        return sorted(self.result.commands, key=lambda command: command.started)

    def explain(self) -> dict[str, Any]:
        """Return the explanation for `graphql.verbose` and `docgraph explain`."""
        return {
            "plan": self.plan.explain(),
            "planCached": self.kept,
            "commands": [command.as_dict() for command in self.commands],
            "documents": self.result.documents,
            **self.freshness,
        }


def record_operation(plan: Plan) -> None:
    """Name the operation in the trace of the request, if there is one."""
    if (trace := current.get()) is not None:
        trace.is_operation, trace.operation = True, plan.comment["operation"]


MEDIA_TYPE = "application/graphql-response+json"
JSON_TYPES: Final = (MEDIA_TYPE, "application/json")
_OK, _BAD_REQUEST = 200, 400


def render_result(
    result: Result, *, limit: int, extensions: Mapping[str, Any] | None = None
) -> Body:
    """Return 200 if there is data, even with errors; 400 if there are only errors."""
    begin, end = b'{"data":', b"}"
    if extensions is not None:
        end = b',"extensions":' + allocations.dumps(extensions) + end
    if result.errors:
        end = b',"errors":' + allocations.dumps([error.as_dict() for error in result.errors]) + end
    data = encode_parts(result.data, limit - len(begin) - len(end))
    if data is None:
        return render_error(reject_length(limit))
    status = _OK if result.data is not None else _BAD_REQUEST
    return Body(status, b"".join([begin, *data, end]), MEDIA_TYPE)


def render_error(error: DocgraphError) -> Body:
    content = allocations.dumps({"data": None, "errors": list_errors(error)})
    return Body(error.status, content, MEDIA_TYPE, list(error.headers))


def list_errors(error: DocgraphError) -> list[dict[str, Any]]:
    """Return the entries of `errors`, ready for JSON."""
    if isinstance(error, OperationRefused):
        entries = [refusal.as_dict() for refusal in error.errors]
    else:
        # A validation error is what the caller can fix.
        is_fixable = isinstance(error, RequestError | QueryError) and error.status == _BAD_REQUEST
        is_fixable = is_fixable and not isinstance(error, DefinitionError)
        kind = Classification.VALIDATION if is_fixable else Classification.ABORTED
        entries = [GraphqlError(error.message, kind, error.code).as_dict()]
    if isinstance(error.details, Mapping) and "id" in error.details:
        entries[0]["extensions"]["id"] = error.details["id"]
    if error.hint is not None:
        entries[0]["extensions"]["hint"] = error.hint
    return entries


_TOGETHER: Final = 64  # rows that are encoded before other requests run
_HINT: Final = "select one list, with single values in it, or send Accept: application/json"
# Their texts are numbers and dates in every `json-mode`, and no formulas.
_NUMBERS: Final = frozenset({"Int", "Float"}).union(
    name for name, scalar in SCALARS.items() if scalar.is_number
)


class CsvColumn(NamedTuple):
    """A selected field of the rows; without a path, the rows themselves."""

    path: tuple[str, ...]
    is_text: bool


class CsvShape(NamedTuple):
    """Where the list is in the result, and its columns."""

    path: tuple[str, ...]
    columns: tuple[CsvColumn, ...]


def find_shape(block: Block) -> CsvShape:
    """Return the table of an operation; raise `NotAcceptable` if it has none, or more."""
    path: tuple[str, ...] = ()
    while len(block.fields) == 1:
        field: Any = block.fields[0]
        path = (*path, field.key)
        type_, selection = getattr(field, "type", None), getattr(field, "selection", None)
        if type_ is not None and (item := _find_item(type_)) is not None:
            if selection is None:
                return CsvShape(path, (CsvColumn((), _is_text(type_)),))
            if _find_item(item) is not None:
                raise _reject(path, "is a list of lists")
            return CsvShape(path, _find_columns(selection))
        if selection is None or len(selection.blocks) != 1:
            raise _reject(path, "is not a list")
        block = selection.only_block
    raise _reject(path, "has more than one field, and CSV is one list")


def _find_columns(selection: Selection) -> tuple[CsvColumn, ...]:
    columns = list(islice(_walk(selection, ()), MAX_COLUMNS + 1))
    if len(columns) > MAX_COLUMNS:
        raise _reject((), f"has more than {MAX_COLUMNS} columns")
    return tuple(dict.fromkeys(columns))


def _walk(selection: Selection, prefix: tuple[str, ...]) -> Iterator[CsvColumn]:
    """Find the single values below a field, of all types that it may have."""
    for block in selection.blocks.values():
        for field in block.fields:
            path = (*prefix, field.key)
            type_, inner = getattr(field, "type", None), getattr(field, "selection", None)
            if inner is None:
                yield CsvColumn(path, type_ is None or _is_text(type_))
            elif type_ is not None and _find_item(type_) is not None:
                raise _reject(path, "is a list inside the list")
            else:
                yield from _walk(inner, path)


def _find_item(type_: GraphQLOutputType) -> GraphQLOutputType | None:
    """Return the type of the items of a list; None if it is no list."""
    type_ = type_.of_type if is_non_null_type(type_) else type_
    return type_.of_type if is_list_type(type_) else None


def _is_text(type_: GraphQLOutputType) -> bool:
    return get_named_type(type_).name not in _NUMBERS


def _reject(path: tuple[str, ...], reason: str) -> NotAcceptable:
    where = ".".join(path) or "the operation"
    return NotAcceptable(f"the answer is no CSV table: {where} {reason}", hint=_HINT)


async def answer_table(shape: CsvShape, cells: CsvCells, plan: Plan, result: Result) -> Body:
    limit = plan.app.app.limits.response_bytes
    text = await render_table(shape, result.data, cells, limit)
    if text is None:
        raise reject_length(limit)
    disposition = render_disposition(plan.name or shape.path[-1])
    return Body(200, text, CSV, [("Content-Disposition", disposition), ("Vary", "Accept")])


async def render_table(shape: CsvShape, data: Any, cells: CsvCells, limit: int) -> bytes | None:
    """Return the CSV of a result; None if it would be longer than `limit` bytes."""
    rows = data
    for key in shape.path:
        rows = None if rows is None else rows[key]
    names = [".".join(path) or shape.path[-1] for path, _ in shape.columns]
    shows = [(path, partial(_show, cells, is_text=is_text)) for path, is_text in shape.columns]
    lines = [encode_line([cells.text(name) for name in names])]
    size = len(lines[0])
    for place, row in enumerate(rows or ()):
        if place % _TOGETHER == 0:
            await asyncio.sleep(0)
        line = _encode_row(row, shows, limit - size)
        size += len(line)
        if size > limit:
            return None
        lines.append(line)
    return b"".join(lines)


def _encode_row(row: Any, shows: Sequence[tuple[tuple[str, ...], Show]], room: int) -> bytes:
    """Return the line of a row; only its beginning if that is longer than `room`.

    Many columns may have the same long list, which is one value in memory.
    """
    cells: list[str] = []
    for path, show in shows:
        cells.append(show(_find_value(row, path)))
        room -= len(cells[-1])
        if room < 0:
            break
    return encode_line(cells)


def _find_value(value: Any, path: tuple[str, ...]) -> Any:
    for key in path:
        if value is None:
            return None
        value = value.get(key)  # an object of another type may not have it
    return value


def _show(cells: CsvCells, value: Any, *, is_text: bool) -> str:
    """Return the cell of a value of the result: the forms of BSON types as REST writes them."""
    kind = type(value)
    if kind is str:
        return cells.text(value) if is_text else quote_cell(value)
    if kind is dict:
        return cells.show(build_bson(value))
    if kind is list or kind is orjson.Fragment:
        return show_json(allocations.dumps(value, embed_json))
    if kind is bytes:
        return show_json(value)
    return cells.show(value)
