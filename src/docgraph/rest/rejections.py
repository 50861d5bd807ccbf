"""Database errors that the caller caused: which error codes are 400.

Filters, projections, sorts and updates come from the caller here, so an error of the database about
them is the caller's to correct: 400. The store cannot know that, and names only the common cases.
The database has thousands of codes for the others, all above 10 000. The table below has the codes
that mean something else for a query than for other operations of the store. Errors that are not
about the request stay 500.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import Final
from urllib.parse import unquote_to_bytes

from docgraph.exchange.errors import NotFound, StoreError, StoreRejected

_FIRST_LOCATION = 10_000  # codes from here on are locations of checks in the server

# The names of the codes are the server's own.
_NAMED: Final = {
    27: "the filter needs an index, such as a text index, that there is not",  # IndexNotFound
    20: "the database does not allow this operation here",  # IllegalOperation
    72: "the database does not do this with this kind of collection",  # InvalidOptions
}

_OPERATOR: Final = re.compile(
    r"(?:unknown|unrecognized)[^$]{0,60}(\$[A-Za-z]{1,40})", re.IGNORECASE
)


def name_operator(
    error: StoreError | NotFound, query_string: bytes, keys: Collection[str]
) -> StoreRejected | None:
    """Return the error with the unknown operator, if the caller wrote that operator.

    Other operators are in the filters of rules, which callers must not learn.
    """
    operator = _OPERATOR.search(str(error.__cause__)) if type(error) is StoreRejected else None
    if operator is None or not (
        operator[1] in keys or operator[1].encode() in unquote_to_bytes(query_string)
    ):
        return None
    return StoreRejected(error.message, hint=f"it has no operator {operator[1]} there")


def find_rejection(error: StoreError | NotFound) -> StoreRejected | None:
    """Return the error as a mistake of the caller, if it is one."""
    if type(error) not in (StoreError, NotFound):
        return None  # the store already classified it
    return reject(getattr(error.__cause__, "code", None))


def reject(code: object) -> StoreRejected | None:
    """Return the error for a database code that the store does not classify."""
    if not isinstance(code, int):
        return None
    if code in _NAMED:
        return StoreRejected(_NAMED[code])
    if code < _FIRST_LOCATION:
        return None
    return StoreRejected(
        "the database does not accept the request",
        hint="check the operators and values of filter, keys, sort, hint and body",
    )
