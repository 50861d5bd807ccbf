"""Change stream definitions: parse and validate the entries of `streams` in the metadata.

    {"uri": "mine", "stages": [{"$match": {"fullDocument.to": {"$var": "@user._id"}}}],
     "notify_when": {"fullDocument::room": {"$var": "room"}}}

The stages run on events, not on documents. They are checked when they are written. An invalid entry
that reached the database in another way does not affect the other entries.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Final

from docgraph.exchange.data import Document
from docgraph.exchange.errors import DefinitionError
from docgraph.rest.bodies.pipelines import (
    in_stages,
    inspect_entries,
    inspect_keys,
    inspect_stages,
)
from docgraph.store import Policy
from docgraph.store.guard.stage_checks import STREAM_STAGES
from docgraph.store.guard.write_effects import read_stage
from docgraph.variables import REST, Flaw, Template, TemplateError, compile_template

__all__ = ["InvalidStream", "StreamDefinition", "find_stream", "inspect_streams", "list_stages"]

_KEYS: Final = ("uri", "stages", "notify_when")
_SEPARATOR: Final = "::"


class InvalidStream(DefinitionError):
    """A stored stream that cannot be opened."""

    status: ClassVar[int] = 500
    code: ClassVar[str] = "invalid-stream"


@dataclass(frozen=True, slots=True)
class StreamDefinition:
    """A stored stream, compiled.

    A client that sends `notify_parameter` in the query string receives only the events whose value
    at `notify_path` equals that parameter.
    """

    uri: str
    stages: Template
    notify_path: tuple[str, ...] = ()
    notify_parameter: str = ""


# --- when it is opened ----------------------------------------------------------------------------


def find_stream(metadata: Mapping[str, Any], uri: str) -> StreamDefinition | None:
    """Return the stream with this uri; raise `InvalidStream` when it cannot work."""
    entries = metadata.get("streams")
    for entry in entries if isinstance(entries, list) else ():
        if isinstance(entry, Mapping) and entry.get("uri") == uri:
            return _compile(entry)
    return None


def _compile(entry: Mapping[str, Any]) -> StreamDefinition:
    try:
        stages = compile_template(entry.get("stages"), vocabulary=REST, context="stages")
    except TemplateError as error:
        first = error.flaws[0]
        raise _invalid(f"{in_stages(first.where)}: {first.what}", error.hint) from None
    condition = entry.get("notify_when")
    for flaw in _inspect_condition(condition, "notify_when"):
        raise _invalid(f"{flaw.where}: {flaw.what}", flaw.hint)
    if condition is None:
        return StreamDefinition(str(entry["uri"]), stages)
    ((key, value),) = condition.items()
    return StreamDefinition(str(entry["uri"]), stages, _split(key), value["$var"])


def _invalid(what: str, hint: str | None) -> InvalidStream:
    return InvalidStream(f"invalid change stream: {what}", hint=hint)


def _split(key: str) -> tuple[str, ...]:
    """Split `fullDocument::a.b` into steps; in keys from the database, `::` is a dot."""
    return tuple(key.replace(_SEPARATOR, ".").split("."))


# --- when it is written ---------------------------------------------------------------------------


def inspect_streams(entries: Any, *, db: str, policy: Policy) -> Iterator[Flaw]:
    """Return every error in the value of `streams`, with its location."""

    def inspect(entry: Document, place: str) -> Iterator[Flaw]:
        yield from inspect_keys(entry, _KEYS, place)
        stages = entry.get("stages")
        yield from inspect_stages(stages, place, db, policy, allowed=STREAM_STAGES)
        yield from _inspect_identity(stages, f"{place}.stages")
        yield from _inspect_condition(entry.get("notify_when"), f"{place}.notify_when")

    return inspect_entries(entries, "streams", "change stream", inspect)


def list_stages(stages: Any, where: str = "stages") -> Iterator[tuple[str, Document]]:
    """Return every stage of a stream without flaws, optional ones included, with its location."""
    for index, stage in enumerate(stages):
        ((name, body),) = stage.items()
        here = f"{where}[{index}]"
        if name != REST.optional:
            yield here, stage
            continue
        for number, branch in enumerate(body[1:], start=1):
            inner = branch if isinstance(branch, list) else [branch]
            yield from list_stages(inner, f"{here}.{name}[{number}]")


def _inspect_identity(stages: Any, place: str) -> Iterator[Flaw]:
    """Return an error for stages that remove `_id`: it is the resume token of the event."""
    for index, stage in enumerate(stages if isinstance(stages, list) else ()):
        if isinstance(stage, dict) and _removes_identity(stage):
            yield Flaw(f"{place}[{index}]", "must leave the _id of an event as it is")


def _removes_identity(stage: Document) -> bool:
    return any(
        one.path == "_id" and (one.operator != "$project" or one.operand in (0, False))
        for one in read_stage(stage)
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


_EXAMPLE: Final = 'such as {"fullDocument::room": {"$var": "room"}}'


def _is_name(value: Any) -> bool:
    return isinstance(value, str) and bool(value) and value[:1] != "@"
