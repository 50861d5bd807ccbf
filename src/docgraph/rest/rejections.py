"""Whose mistake it is when the database refuses a request.

Filters, projections, sorts and updates come from the caller here, so that what the database finds
wrong with them is the caller's to correct: 400. The store cannot know that, and has words for the
common cases only; the database has thousands of codes for the others, all above 10 000. Below are
those that mean something else for a query than for what else the store does. What is not about the
request stays the 500 that it is.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import Final
from urllib.parse import unquote_to_bytes

from docgraph.exchange.errors import NotFound, StoreError, StoreRejected

__all__ = ["find_rejection", "name_operator", "reject"]

_FIRST_LOCATION = (
    10_000  # from here on codes are places in the server that check what they are given
)

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
    """The same error with the operator that is unknown, if it is one that the caller has written.

    Others stand in filters of rules, of which callers are told nothing.
    """
    found = _OPERATOR.search(str(error.__cause__)) if type(error) is StoreRejected else None
    if found is None or not (
        found[1] in keys or found[1].encode() in unquote_to_bytes(query_string)
    ):
        return None
    return StoreRejected(error.message, hint=f"it has no operator {found[1]} there")


def find_rejection(error: StoreError | NotFound) -> StoreRejected | None:
    """The same error as a mistake of the caller, if it is one."""
    if type(error) not in (StoreError, NotFound):
        return None  # the store knows what it is
    return reject(getattr(error.__cause__, "code", None))


def reject(code: object) -> StoreRejected | None:
    """What a code of the database that the store does not know means for the caller."""
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
