"""GraphQL errors: the entries of `errors` in a response (decision 22).

`FieldFailure` is the reason why one field has no value; it becomes a `GraphqlError` once its
position is known. `Errors` collects the first few of them and counts the rest. `OperationRefused`
ends the whole request: the response has only errors.
"""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any, Final

from graphql import GraphQLError

from docgraph.exchange.errors import (
    DocgraphError,
    InternalError,
    Overloaded,
    QueryError,
    SecurityViolation,
    StoreUnavailable,
    TimeLimitExceeded,
)
from docgraph.store.driver.errors import StoreDenied
from docgraph.store.views import ViewRefused

MAX_ERRORS = 20
MAX_MESSAGE = 500  # characters: a message may quote the caller's text

ResponsePath = tuple[str | int, ...]
Locations = tuple[tuple[int, int], ...]


class Classification(StrEnum):
    """The kinds of errors of decision 22."""

    VALIDATION = "ValidationError"
    SYNTAX = "InvalidSyntax"
    FETCHING = "DataFetchingException"
    NULL = "NullValueInNonNullableField"
    UNSUPPORTED = "OperationNotSupported"
    ABORTED = "ExecutionAborted"


@dataclass(frozen=True, slots=True)
class FieldPosition:
    """A selected field: `User.posts`, and its position in the query text."""

    coordinates: str
    locations: Locations = ()


@dataclass(frozen=True, slots=True)
class GraphqlError:
    """One entry of `errors`.

    `cause` is hidden from the caller; the log has it under `id` (decision 22).
    """

    message: str
    classification: Classification
    code: str
    locations: Locations = ()
    path: ResponsePath | None = None
    cause: BaseException | None = field(default=None, repr=False, compare=False)
    id: str = field(default="", compare=False)

    def as_dict(self) -> dict[str, Any]:
        """Return the entry, ready for JSON."""
        message = self.message
        if len(message) > MAX_MESSAGE:
            message = f"{message[:MAX_MESSAGE]}…"
        entry: dict[str, Any] = {"message": message}
        if self.locations:
            entry["locations"] = [{"line": line, "column": col} for line, col in self.locations]
        if self.path is not None:
            entry["path"] = list(self.path)
        entry["extensions"] = {"classification": str(self.classification), "code": self.code}
        if self.id:
            entry["extensions"]["id"] = self.id
        return entry


def find_locations(error: GraphQLError) -> Locations:
    """Return the positions in the query text of an error that graphql-core has found."""
    return tuple((location.line, location.column) for location in error.locations or ())


class FieldFailure(Exception):
    """The reason why a field, or an element of a list, has no value."""

    def __init__(
        self,
        message: str,
        code: str,
        classification: Classification = Classification.FETCHING,
        cause: BaseException | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.code = code
        self.classification = classification
        self.cause = cause

    def at(self, position: FieldPosition) -> Errors:
        """Return the failure as the one error of a value at that position."""
        return Errors(
            [
                GraphqlError(
                    self.message, self.classification, self.code, position.locations, (), self.cause
                )
            ]
        )


class FieldFault(Exception):
    """The reason why the definition of a field is invalid, logged when the app is loaded."""


class Errors:
    """The errors inside one value, with paths relative to it: the first few, and the total."""

    __slots__ = ("first", "total")

    def __init__(self, first: Iterable[GraphqlError] = ()) -> None:
        self.first: list[GraphqlError] = list(first)
        self.total = len(self.first)

    def absorb(self, other: Errors, step: str | int) -> None:
        """Add the errors of the value at `step`."""
        self.total += other.total
        for error in other.first[: MAX_ERRORS - len(self.first)]:
            self.first.append(replace(error, path=(step, *(error.path or ()))))

    def __bool__(self) -> bool:
        return self.total > 0


class Damaged:
    """A completed value with errors in it; None is a null that the errors explain."""

    __slots__ = ("errors", "value")

    def __init__(self, value: Any, errors: Errors) -> None:
        self.value = value
        self.errors = errors


class OperationRefused(QueryError):
    """The operation is not executed at all; `errors` say why, and the first gives the code."""

    def __init__(self, errors: Sequence[GraphqlError]) -> None:
        super().__init__(errors[0].message)
        self.code = errors[0].code  # type: ignore[misc]  # no other error has one per instance
        self.errors = tuple(errors)

    @classmethod
    def because(
        cls,
        message: str,
        code: str,
        classification: Classification = Classification.VALIDATION,
        locations: Locations = (),
    ) -> OperationRefused:
        """Build a rejection for one reason."""
        return cls([GraphqlError(message, classification, code, locations)])


class OperationsOnly(DocgraphError):
    """The caller may run only operations that are stored with the app (allowlist)."""

    status, code = 403, "operations-only"

    def __init__(self) -> None:
        super().__init__(
            "only stored operations may be run",
            hint='send {"operation": "name", "variables": {…}}, or the hash of a stored text',
        )


def reject_length(limit: int) -> OperationRefused:
    """Reject an operation whose response is longer than the limit of the app."""
    text = f"the response is larger than {limit} bytes"
    return OperationRefused.because(text, "response-too-large", Classification.ABORTED)


_ENDS_REQUEST = (
    StoreUnavailable,
    StoreDenied,
    TimeLimitExceeded,
    OperationRefused,
    InternalError,
    Overloaded,
    ViewRefused,
)


def count_more(count: int | None = None) -> GraphqlError:
    """Build the entry that replaces further errors; None: their number is unknown."""
    if count == 1:
        text = "1 more error is not shown"
    else:
        text = f"{count} more errors are not shown" if count else "more errors are not shown"
    return GraphqlError(text, Classification.ABORTED, "more-errors")


def describe_failure(error: DocgraphError) -> FieldFailure:
    """Return the field failure for an error of a lower layer.

    An unreachable or rejecting database and an expired deadline do not concern one field: they end
    the request (decision 25) and are raised again.
    """
    if isinstance(error, _ENDS_REQUEST):
        raise error
    if isinstance(error, SecurityViolation):
        text = f"GraphQL aggregation pipeline security violation: {error.message}"
        return FieldFailure(text, error.code)
    return FieldFailure(error.message, error.code, cause=error.__cause__)


# The text after one of these was sent by the caller.
_VALUE: Final = re.compile(r"((?:non-\w+|integer|string|boolean|numeric|represent) value|found): ")
_SCALAR: Final = re.compile(
    r"(?P<before>.*?)Expected value of type '(?P<type>\w+)', but encountered error '(?P<why>.*)';"
    r" found: (?P<value>.*)\.",
    re.DOTALL,
)
_TOKEN: Final = re.compile(
    r"""
    (?P<json> "(?:\\.|[^"\\])*" )
    | (?P<text> '(?:\\.|[^'\\])*' )
    | \b (?P<word> True | False | None ) \b
    """,
    re.VERBOSE | re.DOTALL,
)
_WORDS: Final = {"True": "true", "False": "false", "None": "null"}


def phrase(message: str) -> str:
    """Return the message for readers who do not know Python.

    graphql-core quotes values of variables as Python writes them (`True`, `{'a': None}`), and puts
    the errors of our scalars in quotes of its own.
    """
    message = message.replace(" not to be None.", " not to be null.")
    if scalar := _SCALAR.fullmatch(message):
        why, value = _spell(scalar["why"]), _spell(scalar["value"])
        return (
            f"{scalar['before']}Expected value of type '{scalar['type']}': {why}; found: {value}."
        )
    marker = _VALUE.search(message)
    if marker is None:
        return message
    return message[: marker.end()] + _spell(message[marker.end() :])


def _spell(text: str) -> str:
    """Replace Python's spelling of values by that of JSON; leave JSON unchanged."""
    return _TOKEN.sub(_spell_token, text)


def _spell_token(token: re.Match[str]) -> str:
    if token["word"]:
        return _WORDS[token["word"]]
    if token["text"] is None:
        return token[0]
    try:
        return json.dumps(ast.literal_eval(token["text"]), ensure_ascii=False)
    except (SyntaxError, ValueError):
        return token[0]
