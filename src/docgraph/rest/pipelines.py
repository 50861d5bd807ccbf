"""Stored aggregations: parse and validate the entries of `aggrs` in the metadata of a collection.

    {"uri": "by-tag", "stages": [{"$match": {"tag": {"$var": "tag"}}}], "allowDiskUse": false}

They are checked when they are written. Entries that reached the database in another way are checked
again when they are run; an entry that cannot work is 422.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Final

from docgraph.exchange.data import Document
from docgraph.exchange.errors import DefinitionError, QueryError, SecurityViolation
from docgraph.store import Policy, check_pipeline
from docgraph.store.guard.fence import check_searches
from docgraph.store.guard.references import CollectionReference, find_references
from docgraph.store.guard.stage_checks import READ_STAGES
from docgraph.variables import (
    REST,
    Flaw,
    StagePart,
    Template,
    TemplateError,
    UnknownOperator,
    compile_template,
    find_misplaced,
    find_shape,
    flatten_stages,
    inspect_template,
)

_KEYS: Final = ("uri", "stages", "allowDiskUse", "type")
_TYPES: Final = frozenset(
    {
        "aggregation pipeline",
        "aggregationpipeline",
        "pipeline",
        "aggregation-pipeline",
        "aggregation",
        "aggregate",
        "ap",
    }
)


class InvalidAggregation(DefinitionError):
    """A stored aggregation that cannot be run."""

    status: ClassVar[int] = 422
    code: ClassVar[str] = "invalid-aggregation"


@dataclass(frozen=True, slots=True)
class Aggregation:
    """A stored aggregation, compiled."""

    uri: str
    stages: Template
    allow_disk_use: bool = False


@dataclass(frozen=True, slots=True)
class UncheckedPart:
    """A part of a stored aggregation or stream that only the database can check."""

    where: str
    what: UnknownOperator | StagePart | CollectionReference


def find_aggregation(metadata: Mapping[str, Any], uri: str) -> Aggregation | None:
    """Return the aggregation with this uri; raise `InvalidAggregation` when it cannot work."""
    entries = metadata.get("aggrs")
    for entry in entries if isinstance(entries, list) else ():
        if isinstance(entry, Mapping) and entry.get("uri") == uri:
            return _compile(entry)
    return None


def _compile(entry: Mapping[str, Any]) -> Aggregation:
    if not _is_known_type(entry.get("type", "pipeline")):
        raise InvalidAggregation("unknown query type")
    try:
        stages = compile_template(entry.get("stages"), vocabulary=REST, context="stages")
    except TemplateError as error:
        raise InvalidAggregation(
            f"invalid aggregation: {in_stages(error.flaws[0].where)}: {error.flaws[0].what}",
            hint=error.hint,
        ) from None
    return Aggregation(str(entry["uri"]), stages, entry.get("allowDiskUse") is True)


def inspect_aggregations(entries: Any, *, db: str, policy: Policy) -> Iterator[Flaw]:
    """Return every error in the value of `aggrs`, with its location."""

    def inspect(entry: Document, place: str) -> Iterator[Flaw]:
        if not isinstance(entry.get("allowDiskUse", False), bool):
            yield Flaw(f"{place}.allowDiskUse", "must be true or false")
        if not _is_known_type(entry.get("type", "pipeline")):
            yield Flaw(f"{place}.type", "unknown query type", "the only type is 'pipeline'")
        yield from inspect_keys(entry, _KEYS, place)
        yield from inspect_stages(entry.get("stages"), place, db, policy)

    return inspect_entries(entries, "aggrs", "aggregation", inspect)


def inspect_entries(
    entries: Any, name: str, kind: str, inspect: Callable[[Document, str], Iterator[Flaw]]
) -> Iterator[Flaw]:
    """Return every error in the list `name` of entries of a `kind`; `inspect` checks one entry."""
    if not isinstance(entries, list):
        yield Flaw(name, f"must be an array of {kind}s")
        return
    seen: set[str] = set()
    for index, entry in enumerate(entries):
        place = f"{name}[{index}]"
        if not isinstance(entry, dict):
            yield Flaw(place, "must be an object with uri and stages")
            continue
        yield from _inspect_uri(entry.get("uri"), seen, f"{place}.uri", kind)
        yield from inspect(entry, place)


def _inspect_uri(uri: Any, seen: set[str], place: str, kind: str) -> Iterator[Flaw]:
    """Return what is wrong with the name of an entry of a `kind`; `seen` has the previous names."""
    if not isinstance(uri, str) or not uri:
        yield Flaw(place, f"must be a text, the last part of the path of the {kind}")
    elif "/" in uri:
        yield Flaw(place, "must not contain a slash")
    elif uri in seen:
        yield Flaw(place, f"there is another {kind} '{uri}'")
    else:
        seen.add(uri)


def inspect_keys(entry: Document, keys: Sequence[str], place: str) -> Iterator[Flaw]:
    """Return the unknown keys; a key that begins with `_` may belong to a newer version."""
    for key in entry:
        if key not in keys and not (key.startswith("_") and key[1:].isidentifier()):
            yield Flaw(f"{place}.{key}", "is not known", f"known are {', '.join(keys)}")


def inspect_stages(
    stages: Any, place: str, db: str, policy: Policy, *, allowed: frozenset[str] = READ_STAGES
) -> Iterator[Flaw]:
    """Return what is wrong with the stages of the entry at `place`."""
    template, flaws = inspect_template(stages, vocabulary=REST, context="stages")
    for part in template.parts:
        if (shape := find_shape(part)) is not None:
            flaws.append(Flaw(part.where, shape))
    flaws += find_misplaced(stages, REST)
    for flaw in flaws:
        yield Flaw(f"{place}.{in_stages(flaw.where)}", flaw.what, flaw.hint)
    if flaws:
        return
    try:
        possible = flatten_stages(stages, REST.optional)
        check_pipeline(possible, db=db, policy=policy, origin="stages", allowed=allowed)
        check_searches(possible)
    except (SecurityViolation, QueryError) as error:
        yield Flaw(f"{place}.stages", error.message, error.hint)


def find_unchecked(entries: Any, name: str, *, db: str) -> Iterator[UncheckedPart]:
    """Return the questions for the database about the entries of a list that have no flaw."""
    for index, entry in enumerate(entries if isinstance(entries, list) else ()):
        stages, place = entry.get("stages"), f"{name}[{index}]"
        template, _ = inspect_template(stages, vocabulary=REST, context="stages")
        for operator in template.unknown:
            yield UncheckedPart(f"{place}.{in_stages(operator.where)}", operator)
        for part in template.parts:
            if part.is_alone:
                yield UncheckedPart(f"{place}.{in_stages(part.where)}", part)
        possible = flatten_stages(stages, REST.optional)
        for reference in dict.fromkeys(find_references(possible, db)):
            yield UncheckedPart(f"{place}.stages", reference)


def _is_known_type(type: Any) -> bool:
    return isinstance(type, str) and type.lower() in _TYPES


def in_stages(where: str) -> str:
    """Convert a location in a template to a location in an entry."""
    if not where:
        return "stages"
    return f"stages{where}" if where.startswith("[") else f"stages.{where}"
