"""Descriptions of types and values, for messages and for the reference page."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from msgspec import inspect

from docgraph.config.config_node import ConfigNode
from docgraph.config.options import unwrap
from docgraph.config.secrets import mask_connection_string

_MAX_SHOWN: Final = 60
_SIZE: Final = "a size such as 65536, '64 KiB' or '1 MiB'"


def describe_kind(kind: inspect.Type, extra: Mapping[str, Any]) -> str:
    """Describe a type: "a whole number", "one of 'a' and 'b'"."""
    match kind:
        case inspect.Metadata():
            bare, inner, _ = unwrap(kind)
            return describe_kind(bare, {**inner, **extra})
        case inspect.UnionType():
            return join_words([describe_kind(member, extra) for member in kind.types])
        case inspect.LiteralType():
            return join_words([quote(value) for value in kind.values])
        case inspect.EnumType():
            return join_words([quote(member.value) for member in kind.cls])
        case inspect.ListType() | inspect.VarTupleType() | inspect.SetType():
            return f"a list of {_plural(kind.item_type)}"
        case inspect.IntType() if extra.get("size"):
            return _SIZE
        case inspect.StrType() if "form" in extra:
            return str(extra["form"])
    return _SIMPLE.get(type(kind), "another kind of value")


_SIMPLE: Final[dict[type, str]] = {
    inspect.BoolType: "true or false",
    inspect.IntType: "a whole number",
    inspect.FloatType: "a number",
    inspect.StrType: "text",
    inspect.NoneType: "null",
    inspect.DictType: "a mapping",
    inspect.StructType: "a mapping of options",
}

_PLURALS: Final[dict[type, str]] = {
    inspect.BoolType: "true or false",
    inspect.IntType: "whole numbers",
    inspect.FloatType: "numbers",
    inspect.StrType: "texts",
    inspect.DictType: "mappings",
    inspect.StructType: "mappings",
}


def _plural(kind: inspect.Type) -> str:
    bare, extra, _ = unwrap(kind)
    if isinstance(bare, inspect.LiteralType):
        return describe_kind(bare, extra)
    return _PLURALS.get(type(bare), "values")


def describe_value(node: ConfigNode, *, secret: bool) -> str:
    """Describe a value: "text 'abc'", "a list"; of a secret, only its type."""
    value = node.value
    if isinstance(value, Mapping):
        return "a mapping"
    if isinstance(value, tuple):
        return "a list"
    if value is None:
        return "nothing"
    if isinstance(value, str):
        return "text" if secret else f"text {quote(mask_connection_string(value))}"
    if isinstance(value, bool):
        return "true" if value else "false"
    return "a number" if secret else f"the number {value}"[: _MAX_SHOWN + 12]


def quote(value: object) -> str:
    """Quote a value, shortened when long, without control characters."""
    text = str(value)
    text = text if len(text) <= _MAX_SHOWN else f"{text[:_MAX_SHOWN]}…"
    return f"'{text}'" if text.isprintable() else ascii(text)


def join_words(words: Iterable[str]) -> str:
    """Return `a, b or c`."""
    parts: Sequence[str] = list(dict.fromkeys(words))
    if len(parts) <= 1:
        return "".join(parts)
    return f"{', '.join(parts[:-1])} or {parts[-1]}"
