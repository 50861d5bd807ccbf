"""Change stream definitions: parse and validate the entries of `streams` in the metadata.

    {"uri": "mine", "stages": [{"$match": {"fullDocument.to": {"$var": "@user._id"}}}],
     "notify_when": {"fullDocument::room": {"$var": "room"}},
     "snapshot": {"filter": {"to": {"$var": "@user._id"}}, "limit": 500}, "before": true}

The stages run on events, not on documents. They are checked when they are written. An invalid entry
that reached the database in another way does not affect the other entries.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Final

from docgraph.exchange.data import Document
from docgraph.exchange.errors import DefinitionError
from docgraph.rest.aggregation_variables import find_variables
from docgraph.rest.pipelines import in_stages, inspect_entries, inspect_keys, inspect_stages
from docgraph.store import Policy
from docgraph.store.guard.fence import split_leading
from docgraph.store.guard.stage_checks import STREAM_STAGES, has_key
from docgraph.store.guard.write_effects import read_stage
from docgraph.variables import REST, Flaw, Template, TemplateError, compile_template

_KEYS: Final = ("uri", "stages", "notify_when", "snapshot", "before")
_SNAPSHOT_KEYS: Final = ("filter", "limit")
_PARAMETERS: Final = ("avars", "before", "event-ids", "jsonMode", "resume-after", "snapshot")
_AS_STAGE: Final = ".stages[0].$match"
# They need an index of their own and an order, or could search hidden properties.
_SEARCHES: Final = frozenset({"$text", "$near", "$nearsphere"})
_SEPARATOR: Final = "::"


class InvalidStream(DefinitionError):
    """A stored stream that cannot be opened."""

    status: ClassVar[int] = 500
    code: ClassVar[str] = "invalid-stream"


@dataclass(frozen=True, slots=True)
class SnapshotDefinition:
    """The documents that a client may get before the events; more than `limit` are an error."""

    filter: Template
    limit: int | None = None


@dataclass(frozen=True, slots=True)
class StreamDefinition:
    """A stored stream, compiled.

    A client that sends `notify_parameter` in the query string receives only the events whose value
    at `notify_path` equals that parameter. `constant` has the conditions of the first stages that
    are the same in every request. `before`: clients may get the document as it was before a change.
    """

    uri: str
    stages: Template
    notify_path: tuple[str, ...] = ()
    notify_parameter: str = ""
    constant: tuple[Document, ...] = ()
    snapshot: SnapshotDefinition | None = None
    before: bool = False

    @property
    def sources(self) -> tuple[Any, ...]:
        """The parts with variables, as they were written."""
        snapshot = self.snapshot
        return (self.stages.source, *([snapshot.filter.source] if snapshot is not None else []))

    def describe(self) -> Document:
        """Return the description of the stream for clients: variables and options."""
        described: Document = {
            "uri": self.uri,
            "variables": [variable.describe() for variable in find_variables(*self.sources)],
            "snapshot": self.snapshot is not None,
            "before": self.before,
        }
        if self.notify_parameter:
            described["notify_when"] = self.notify_parameter
        return described


def find_stream(metadata: Mapping[str, Any], uri: str) -> StreamDefinition | None:
    """Return the stream with this uri; raise `InvalidStream` when it cannot work."""
    entries = metadata.get("streams")
    for entry in entries if isinstance(entries, list) else ():
        if isinstance(entry, Mapping) and entry.get("uri") == uri:
            return _compile(entry)
    return None


def list_streams(metadata: Mapping[str, Any]) -> Iterator[StreamDefinition]:
    """Yield the streams that can work, in their order."""
    entries = metadata.get("streams")
    for entry in entries if isinstance(entries, list) else ():
        if isinstance(entry, Mapping) and isinstance(entry.get("uri"), str):
            with suppress(InvalidStream):
                yield _compile(entry)


def _compile(entry: Mapping[str, Any]) -> StreamDefinition:
    snapshot, condition = entry.get("snapshot"), entry.get("notify_when")
    try:
        stages = compile_template(entry.get("stages"), vocabulary=REST, context="stages")
    except TemplateError as error:
        first = error.flaws[0]
        raise _invalid(f"{in_stages(first.where)}: {first.what}", error.hint) from None
    for flaw in (*_inspect_condition(condition, "notify_when"), *_inspect_shape(entry, "")):
        raise _invalid(f"{flaw.where}: {flaw.what}", flaw.hint)
    conditions, _ = split_leading(stages.source)
    definition = StreamDefinition(
        str(entry["uri"]),
        stages,
        constant=tuple(
            dict(match) for match in conditions if not has_key(match, stages.vocabulary.operators)
        ),
        snapshot=None if snapshot is None else _compile_snapshot(snapshot),
        before=entry.get("before") is True,
    )
    if condition is None:
        return definition
    ((key, value),) = condition.items()
    return replace(definition, notify_path=_split(key), notify_parameter=value["$var"])


def _compile_snapshot(snapshot: Mapping[str, Any]) -> SnapshotDefinition:
    try:
        filter = compile_template(snapshot.get("filter", {}), vocabulary=REST, context="filter")
    except TemplateError as error:
        first = error.flaws[0]
        raise _invalid(f"snapshot.filter.{first.where}: {first.what}", error.hint) from None
    return SnapshotDefinition(filter, snapshot.get("limit"))


def _invalid(what: str, hint: str | None) -> InvalidStream:
    return InvalidStream(f"invalid change stream: {what}", hint=hint)


def _split(key: str) -> tuple[str, ...]:
    """Split `fullDocument::a.b` into steps; in keys from the database, `::` is a dot."""
    return tuple(key.replace(_SEPARATOR, ".").split("."))


def inspect_streams(entries: Any, *, db: str, policy: Policy) -> Iterator[Flaw]:
    """Return every error in the value of `streams`, with its location."""

    def inspect(entry: Document, place: str) -> Iterator[Flaw]:
        yield from inspect_keys(entry, _KEYS, place)
        stages = entry.get("stages")
        yield from inspect_stages(stages, place, db, policy, allowed=STREAM_STAGES)
        yield from _inspect_identity(stages, f"{place}.stages")
        yield from _inspect_condition(entry.get("notify_when"), f"{place}.notify_when")
        yield from _inspect_parameter(entry.get("notify_when"), f"{place}.notify_when")
        shapes = list(_inspect_shape(entry, f"{place}."))
        yield from shapes
        if not shapes and entry.get("snapshot") is not None:
            yield from _inspect_filter(entry["snapshot"], f"{place}.snapshot", db, policy)

    return inspect_entries(entries, "streams", "change stream", inspect)


def list_stages(stages: Any, where: str = "stages") -> Iterator[tuple[str, Document]]:
    """Return every stage of a stream without flaws, optional ones included, with its location."""
    for index, stage in enumerate(stages):
        ((name, body),) = stage.items()
        place = f"{where}[{index}]"
        if name != REST.optional:
            yield place, stage
            continue
        for number, branch in enumerate(body[1:], start=1):
            inner = branch if isinstance(branch, list) else [branch]
            yield from list_stages(inner, f"{place}.{name}[{number}]")


def _inspect_identity(stages: Any, place: str) -> Iterator[Flaw]:
    """Return an error for stages that remove `_id`: it is the resume token of the event."""
    for index, stage in enumerate(stages if isinstance(stages, list) else ()):
        if isinstance(stage, dict) and _removes_identity(stage):
            yield Flaw(f"{place}[{index}]", "must leave the _id of an event as it is")


def _removes_identity(stage: Document) -> bool:
    return any(
        change.path == "_id" and (change.operator != "$project" or change.operand in (0, False))
        for change in read_stage(stage)
    )


def _inspect_condition(condition: Any, place: str) -> Iterator[Flaw]:
    if condition is None:
        return
    if not isinstance(condition, Mapping) or len(condition) != 1:
        yield Flaw(place, "notify_when must have exactly one entry", _EXAMPLE)
        return
    ((key, value),) = condition.items()
    if not isinstance(value, Mapping) or list(value) != ["$var"] or not _is_name(value["$var"]):
        yield Flaw(place, 'notify_when value must be { "$var": "<varName>" }', _EXAMPLE)
    if len(_split(key)) == 1 or not all(_split(key)):
        yield Flaw(place, "notify_when must use '::' separator", _EXAMPLE)


def _inspect_shape(entry: Mapping[str, Any], place: str) -> Iterator[Flaw]:
    """Return what is wrong with `snapshot` and `before`, without the content of the filter."""
    if not isinstance(entry.get("before", False), bool):
        yield Flaw(f"{place}before", "must be true or false")
    snapshot = entry.get("snapshot")
    if snapshot is None:
        return
    if not isinstance(snapshot, dict):
        hint = 'such as {"filter": {"room": {"$var": "room"}}, "limit": 500}'
        yield Flaw(f"{place}snapshot", "must be an object with filter and limit", hint)
        return
    yield from inspect_keys(snapshot, _SNAPSHOT_KEYS, f"{place}snapshot")
    limit = snapshot.get("limit", 1)
    if isinstance(limit, bool) or not isinstance(limit, int) or limit < 1:
        yield Flaw(f"{place}snapshot.limit", "must be a whole number of documents, at least 1")


def _inspect_filter(
    snapshot: Mapping[str, Any], place: str, db: str, policy: Policy
) -> Iterator[Flaw]:
    """Return what is wrong with the filter of a snapshot, which is checked as a `$match`."""
    filter = snapshot.get("filter", {})
    if has_key(filter, _SEARCHES):
        yield Flaw(f"{place}.filter", "must not use $text, $near or $nearSphere")
        return
    for flaw in inspect_stages([{"$match": filter}], place, db, policy):
        where = flaw.where.replace(_AS_STAGE, ".filter").replace(".stages", ".filter")
        yield Flaw(where, flaw.what, flaw.hint)


def _inspect_parameter(condition: Any, place: str) -> Iterator[Flaw]:
    """Return an error for a condition that has the name of another parameter of the request."""
    for value in condition.values() if isinstance(condition, Mapping) else ():
        name = value.get("$var") if isinstance(value, Mapping) else None
        if name in _PARAMETERS:
            yield Flaw(place, f"'{name}' is a parameter of every stream", "choose another name")


_EXAMPLE: Final = 'such as {"fullDocument::room": {"$var": "room"}}'


def _is_name(value: Any) -> bool:
    return isinstance(value, str) and bool(value) and value[:1] != "@"
