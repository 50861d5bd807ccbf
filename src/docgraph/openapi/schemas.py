"""JSON schemas of the store converted to OpenAPI 3.1 (JSON Schema 2020-12).

Older drafts are rewritten where a keyword has changed its name or shape. References lead from one
component to another. A reference without a target accepts everything, since a description may be
incomplete but not wrong.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final
from urllib.parse import unquote

from docgraph.codec.bson_types import ObjectId
from docgraph.exchange import Document

SchemaKey = tuple[str, Any]  # the database of the store, and the `_id`

_ADDRESS: Final = re.compile(r"http://schema-store/([^/?#]+)/([^/?#]+)(?:#(.*))?")
_HEX: Final = re.compile(r"[0-9a-fA-F]{24}")
_UNSAFE: Final = re.compile(r"[^A-Za-z0-9._-]")
_LEFT_OUT: Final = frozenset({"_id", "_etag", "id", "$id", "$schema", "$anchor", "$vocabulary"})
_BOUNDS: Final = (("minimum", "exclusiveMinimum"), ("maximum", "exclusiveMaximum"))
# They contain schemas by name, so that their keys are no keywords.
_NAMED: Final = frozenset(
    {"properties", "patternProperties", "definitions", "$defs", "dependentSchemas"}
)
_VALUES: Final = frozenset(
    {"enum", "const", "default", "examples", "required", "dependentRequired"}
)


def name_component(key: SchemaKey, taken: Mapping[str, Any]) -> str:
    """Return a free name for the component."""
    name = wanted = _UNSAFE.sub("_", f"{key[0]}.{key[1]}")
    number = 2
    while name in taken:
        name, number = f"{wanted}_{number}", number + 1
    return name


def find_references(schema: Any) -> Iterator[SchemaKey]:
    """Yield the schemas of the store that this one refers to."""
    if isinstance(schema, list):
        for element in schema:
            yield from find_references(element)
    elif isinstance(schema, dict):
        for name, value in schema.items():
            match = _ADDRESS.fullmatch(value) if name == "$ref" and isinstance(value, str) else None
            if match is not None:
                yield _key_of(match)
            yield from find_references(value)


def convert_schema(schema: Document, name: str, names: Mapping[SchemaKey, str]) -> Document:
    """Return the schema as the component of that name; `names` are those of all components."""
    converted: Document = _Conversion(name, names).convert(schema)
    return converted


class _Conversion:
    """The conversion of one schema."""

    def __init__(self, name: str, names: Mapping[SchemaKey, str]) -> None:
        self._base = f"#/components/schemas/{name}"
        self._names = names

    def convert(self, schema: Any) -> Any:
        """Convert a schema, or a list of schemas."""
        if isinstance(schema, list):
            return [self.convert(one) for one in schema]
        if not isinstance(schema, dict):
            return schema
        if "$ref" in schema:
            return self._refer(schema["$ref"])
        converted: Document = {}
        for keyword, value in schema.items():
            converted |= self._convert_keyword(keyword, value)
        _convert_bounds(converted)
        return converted

    def _convert_keyword(self, keyword: str, value: Any) -> Document:
        if keyword in _VALUES:
            return {keyword: value}
        if keyword in ("$dynamicRef", "$recursiveRef") or keyword in _LEFT_OUT:
            return {}
        if keyword in _NAMED and isinstance(value, dict):
            return {keyword: {name: self.convert(one) for name, one in value.items()}}
        if keyword == "items" and isinstance(value, list):
            return {"prefixItems": self.convert(value)}
        if keyword == "additionalItems":
            return {}  # only meaningful with a list of items, and can be left open
        if keyword == "dependencies" and isinstance(value, dict):
            return self._convert_dependencies(value)
        return {keyword: self.convert(value)}

    def _convert_dependencies(self, value: Document) -> Document:
        names = {key: one for key, one in value.items() if isinstance(one, list)}
        schemas = {key: self.convert(one) for key, one in value.items() if key not in names}
        return {
            **({"dependentRequired": names} if names else {}),
            **({"dependentSchemas": schemas} if schemas else {}),
        }

    def _refer(self, reference: Any) -> Document:
        if not isinstance(reference, str):
            return {}
        base, pointer = self._base, reference.removeprefix("#")
        match = _ADDRESS.fullmatch(reference)
        if match is not None:
            name = self._names.get(_key_of(match))
            base, pointer = f"#/components/schemas/{name}", match[3] or ""
            if name is None:
                return {}
        elif not reference.startswith("#"):
            return {}
        return {"$ref": f"{base}{pointer}"} if pointer[:1] in ("", "/") else {}


def _convert_bounds(schema: Document) -> None:
    """Convert `exclusiveMinimum: true` with `minimum: 1` to `exclusiveMinimum: 1`."""
    for bound, exclusive in _BOUNDS:
        if isinstance(schema.get(exclusive), bool):
            is_exclusive = schema.pop(exclusive)
            if is_exclusive and bound in schema:
                schema[exclusive] = schema.pop(bound)


def _key_of(match: re.Match[str]) -> SchemaKey:
    db, id = unquote(match[1]), unquote(match[2])
    return db, ObjectId(id) if _HEX.fullmatch(id) else id
