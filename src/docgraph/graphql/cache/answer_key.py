"""Keys of cached answers: everything that an answer depends on, except the data.

Two requests with the same key get the same answer from the same data. A value whose exact form is
not known has no key: it is not cached.
"""

from __future__ import annotations

import marshal
from collections.abc import Callable, Mapping
from datetime import datetime
from enum import Enum
from hashlib import blake2b
from typing import Any, Final
from uuid import UUID

from docgraph.codec.bson_types import (
    Binary,
    DatetimeMS,
    Decimal128,
    Int64,
    MaxKey,
    MinKey,
    ObjectId,
    Regex,
    Timestamp,
)
from docgraph.exchange.exchange import RowFilters
from docgraph.graphql.definition.inputs import ExactFloat
from docgraph.graphql.plan.plan import Plan
from docgraph.variables import CallerDocument, TrustedDocument

_PLAIN: Final = 0  # the format of `marshal` that depends on nothing but values and their types
_LONGEST: Final = 200  # bytes; the digest is used for longer values
_DOCUMENTS: Final[tuple[type, ...]] = (dict, CallerDocument, TrustedDocument)
# Types whose `repr` has their whole value.
_EXACT: Final[frozenset[Any]] = frozenset(
    {
        *(str, int, float, bool, type(None), bytes, datetime, UUID),
        *(DatetimeMS, Decimal128, Int64, MaxKey, MinKey, ObjectId, Regex, Timestamp),
    }
)


class NoKeyError(ValueError):
    """A value whose exact form is not known."""


def build_key(
    plan: Plan,
    variables: Mapping[str, Any],
    values: Mapping[str, Any],
    rows: Mapping[str, Any] | None,
) -> bytes:
    """Return the key of an answer; raise `NoKeyError`.

    `values` are those of the predefined variables, `rows` the caller's row filters. The text of the
    operation has the types of its variables, so that their raw values are enough; in another order
    they have another key.
    """
    plain: Any = variables
    try:
        content = marshal.dumps(plain, _PLAIN)
    except ValueError:  # a value of a type that JSON does not have
        content = _render(variables)
    if values or rows:  # they can be binary data, of which `marshal` does not write the subtype
        unnamed = sorted(rows.unnamed) if isinstance(rows, RowFilters) else ()
        rendered = _render(values, rows, dict.fromkeys(unnamed))
        content = b"%d %b" % (len(content), content) + rendered
    if len(content) > _LONGEST:
        content = b"digest" + blake2b(content, digest_size=32).digest()
    return plan.identity + content


def _render(*mappings: Mapping[str, Any] | None) -> bytes:
    """Return values as text; one whose exact form is not known raises an error."""
    parts: list[str] = []
    for part in mappings:
        parts.append(f"part {len(part or ())}")
        for name, value in (part or {}).items():
            parts.append(repr(name))
            _write(value, parts.append)
    return "\n".join(parts).encode("utf-8", "surrogatepass")


def _write(value: Any, write: Callable[[str], None]) -> None:
    """Write a value with its type; the order of keys can matter."""
    kind = type(value)
    if kind in _EXACT:
        write(f"{kind.__name__} {value!r}")
    elif kind is Binary:  # its `repr` does not show what is sensitive
        write(f"binary {value.subtype} {value.hex()}")
    elif kind is ExactFloat:
        write(f"number {value.text}")
    elif kind in _DOCUMENTS:
        write(f"{kind.__name__} {len(value)}")
        for name, inner in value.items():
            write(repr(name))
            _write(inner, write)
    elif kind in {list, tuple}:
        write(f"list {len(value)}")
        for item in value:
            _write(item, write)
    elif isinstance(value, Enum):
        write(f"{kind.__name__} {value.name}")
    else:
        raise NoKeyError(kind.__name__)
