"""Value marks: unbound, matching nothing, and documents that may contain query operators.

A value that a caller supplies stays a value (decision 20a). The exceptions are documents marked
`CallerDocument` (a `BsonDocument` argument, `@filter`, `@request.body`), whose query operators
apply but are checked, and `TrustedDocument` (the filter of a permission, or a document that a
plugin returns as such).
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import Enum
from typing import Any, Final

from docgraph.exchange.errors import SecurityViolation
from docgraph.variables.errors import UnusableValue


class Mark(Enum):
    """Values that a database cannot store."""

    UNBOUND = "unbound"  # a name that has no value
    LEFT_OUT = "left out"  # a conjunction of which every member was optional and not given
    NOTHING = "nothing"  # a null from a default, a missing foreign key: the condition never holds

    def __repr__(self) -> str:
        return self.name


UNBOUND: Final = Mark.UNBOUND
LEFT_OUT: Final = Mark.LEFT_OUT
NOTHING: Final = Mark.NOTHING

MATCH_NOTHING: Final[dict[str, Any]] = {"_id": {"$in": []}}
"""A filter that no document satisfies; the server answers it without reading data."""
NO_DOCUMENTS: Final[list[dict[str, Any]]] = [{"$match": MATCH_NOTHING}]
"""The stages that find nothing: an empty list would find everything."""

FORBIDDEN_FROM_CALLERS: Final = frozenset({"$where", "$function", "$accumulator", "$expr"})
MAX_REGEX_LENGTH: Final = 512


def matches_nothing(filter_: Any) -> bool:
    """Check if a rendered filter, or stages, certainly find no document: no query is needed."""
    return filter_ is MATCH_NOTHING or filter_ is NO_DOCUMENTS


_NEGATIONS: Final = frozenset({"$not", "$nin", "$ne"})
_LOGICAL: Final = frozenset({"$and", "$or"})


class CallerDocument(dict[str, Any]):
    """A document that a caller wrote where query operators are allowed."""

    __slots__ = ()


class KindChoices(list[Any]):
    """The values of several types that a value of a caller may mean, the preferred one first."""

    __slots__ = ()


def narrow(query: Any) -> list[Any]:
    """Return the filter, or the stages, once for each kind of its first value of several kinds.

    All conditions with the same value have the same kind in it; negations stay as they are.
    """
    choices = next(_find_choices(query), None)
    return [] if choices is None else [_choose(query, choices, value) for value in choices]


def _find_choices(query: Any) -> Iterator[KindChoices]:
    if isinstance(query, KindChoices):
        yield query
    elif isinstance(query, dict):
        for key, value in query.items():
            if _is_followed(key, value):
                yield from _find_choices(value)
    else:
        for member in query:
            yield from _find_choices(member)


def _choose(query: Any, choices: KindChoices, value: Any) -> Any:
    if isinstance(query, KindChoices):
        return [value] if query == choices else query
    if isinstance(query, dict):
        return {
            key: _choose(inner, choices, value) if _is_followed(key, inner) else inner
            for key, inner in query.items()
        }
    return [_choose(member, choices, value) for member in query]


def _is_followed(key: str, value: Any) -> bool:
    """Return whether to search for choices there: not in values, negations and other pipelines."""
    return key in _LOGICAL or (type(value) in (dict, KindChoices) and key not in _NEGATIONS)


def mark_caller(value: Any) -> Any:
    """Return the value with every document in it marked as the caller's."""
    if isinstance(value, dict):
        return CallerDocument({key: mark_caller(item) for key, item in value.items()})
    if isinstance(value, list):
        return [mark_caller(item) for item in value]
    return value


def check_caller_document(document: Any) -> None:
    """Reject operators that run code or compare arbitrary fields, at any depth (decision 20a)."""
    pending = [document]
    while pending:
        value = pending.pop()
        if isinstance(value, dict):
            for key, item in value.items():
                if key in FORBIDDEN_FROM_CALLERS:
                    raise SecurityViolation(f"{key} is not allowed in a caller's document")
                if key == "$regex" and isinstance(item, str):
                    check_regex_length(item)
                pending.append(item)
        elif isinstance(value, list):
            pending.extend(value)


def check_regex_length(pattern: str) -> None:
    """Bound the work that a caller's pattern can cause."""
    if len(pattern) > MAX_REGEX_LENGTH:
        raise UnusableValue(f"a regular expression may have {MAX_REGEX_LENGTH} characters at most")
