"""Metadata validation: properties of a database or collection that docgraph interprets.

    aggrs                       stored aggregations
    etagPolicy, etagDocPolicy   when a write must have an etag
    jsonSchema                  the schema that documents must follow
    streams                     change streams

They are checked before they are stored. All other properties belong to the author. Keys are stored
escaped (`_$match`, `a::b`) and returned as they were written; both forms are accepted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from itertools import islice
from typing import Any, Final

from docgraph.codec import as_meant
from docgraph.codec import to_stored as escape
from docgraph.exchange.data import Document
from docgraph.exchange.errors import DefinitionError, NotSupported
from docgraph.rest.pipelines import inspect_aggregations, inspect_keys
from docgraph.rest.stream_definitions import inspect_streams
from docgraph.store import Policy
from docgraph.variables import Flaw

_POLICIES: Final = ("REQUIRED", "REQUIRED_FOR_DELETE", "OPTIONAL")
_SCHEMA_KEYS: Final = ("schemaId", "schemaStoreDb", "skipNotSupported")
_UNSUPPORTED: Final = {
    "checkContentSize": "mongo.max-body-size bounds all bodies, and a JSON schema what is stored",
    "addRequestProperties": "mergeRequest of a permission adds values to what is written",
}
_IDLE: Final = {
    "rels": "without effect, links are a part of HAL, which is not supported",
    "checkers": "without effect, a JSON schema (jsonSchema) checks what is written",
    "transformers": "without effect, permissions have mergeRequest and projectResponse",
}
_OURS: Final = frozenset({"_id", "_etag"})
MAX_FLAWS: Final = 100  # that an error reports: the search for a hint takes a while


def to_stored(properties: Mapping[str, Any]) -> Document:
    """Return the properties as they are stored, without those that callers cannot set."""
    return escape({key: value for key, value in properties.items() if key not in _OURS})


def check_properties(
    properties: Mapping[str, Any], *, db: str, policy: Policy, of_collection: bool
) -> None:
    """Raise one error for all properties, as they were written, that cannot work."""
    if of_collection:
        # They change writes in similar systems, but not here.
        for name in _UNSUPPORTED:
            if name in properties:
                raise NotSupported(
                    f"the property {name} of a collection is not supported", hint=_UNSUPPORTED[name]
                )
    all_flaws = _inspect(as_meant(to_stored(properties)), db, policy, of_collection)
    flaws = list(islice(all_flaws, MAX_FLAWS))
    if not flaws:
        return
    first = flaws[0]
    raise DefinitionError(
        f"{first.where}: {first.what}",
        hint=first.hint,
        details=[f"{flaw.where}: {flaw.what}" for flaw in flaws],
    )


def find_idle(properties: Mapping[str, Any]) -> list[str]:
    """Return warnings about properties of a collection that have no effect there."""
    return [f"{name}: {reason}" for name, reason in _IDLE.items() if name in properties]


def _inspect(
    properties: Mapping[str, Any], db: str, policy: Policy, of_collection: bool
) -> Iterator[Flaw]:
    for name in ("etagPolicy", "etagDocPolicy"):
        if name in properties:
            value = properties[name]
            if not isinstance(value, str) or value.upper() not in _POLICIES:
                yield Flaw(name, f"must be one of {', '.join(_POLICIES)}")
    if not of_collection:
        return
    if "aggrs" in properties:
        yield from inspect_aggregations(properties["aggrs"], db=db, policy=policy)
    if "streams" in properties:
        yield from inspect_streams(properties["streams"], db=db, policy=policy)
    if "jsonSchema" in properties:
        yield from _inspect_schema(properties["jsonSchema"])


_SHAPES: dict[str, tuple[Callable[[Any], bool], str]] = {
    "schemaStoreDb": (lambda value: isinstance(value, str) and bool(value), "must be a text"),
    "skipNotSupported": (lambda value: isinstance(value, bool), "must be true or false"),
}


def _inspect_schema(value: Any) -> Iterator[Flaw]:
    if not isinstance(value, dict):
        yield Flaw("jsonSchema", "must be an object with schemaId")
        return
    if value.get("schemaId") is None:
        yield Flaw("jsonSchema", "missing property schemaId")
    yield from inspect_keys(value, _SCHEMA_KEYS, "jsonSchema")
    for key, given in value.items():
        if key in _SHAPES and not _SHAPES[key][0](given):
            yield Flaw(f"jsonSchema.{key}", _SHAPES[key][1])
