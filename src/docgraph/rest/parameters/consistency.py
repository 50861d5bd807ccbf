"""Read preference, read concern and write concern: the query parameters for consistency."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from docgraph.exchange import Consistency, WriteConcern
from docgraph.exchange.errors import RequestError
from docgraph.store.driver.concerns import MAJORITY, READ_CONCERNS, READ_PREFERENCES

FROM_PRIMARY: Final = Consistency(preference="primary")

# The names are those of MongoDB's drivers.
_WRITE_CONCERNS: Final = {
    MAJORITY: WriteConcern(MAJORITY),
    "acknowledged": WriteConcern(),
    "journaled": WriteConcern(journal=True),
    "w1": WriteConcern(1),
    "w2": WriteConcern(2),
    "w3": WriteConcern(3),
}
WRITE_CONCERNS: Final = tuple(_WRITE_CONCERNS)
_UNACKNOWLEDGED: Final = frozenset({"unacknowledged", "w0"})
_NUMBER: Final = re.compile(r"[0-9]{1,3}")
_MAX_SERVERS: Final = 50  # the maximum of a replica set


def parse_read_preference(text: str) -> str:
    """Return the named mode, in the letter case that the database expects."""
    return _choose("readPreference", text, READ_PREFERENCES)


def parse_read_concern(text: str) -> str:
    """Return the named level."""
    return _choose("readConcern", text, READ_CONCERNS)


def parse_write_concern(text: str) -> WriteConcern:
    """Return a number of servers, or one of the names."""
    name = text.strip().lower()
    servers = int(name) if _NUMBER.fullmatch(name) else None
    if servers == 0 or name in _UNACKNOWLEDGED:
        raise RequestError(
            "illegal writeConcern parameter, unacknowledged writes are not supported",
            hint=f"valid values are {', '.join(WRITE_CONCERNS)}, and 1 to {_MAX_SERVERS}",
        )
    if servers is not None and servers <= _MAX_SERVERS:
        return WriteConcern(servers)
    concern = _WRITE_CONCERNS.get(name)
    if concern is None:
        raise _unknown("writeConcern", (*WRITE_CONCERNS, f"a number from 1 to {_MAX_SERVERS}"))
    return concern


def _choose(parameter: str, text: str, names: Iterable[str]) -> str:
    given = text.strip().lower()
    for name in names:
        if name.lower() == given:
            return name
    raise _unknown(parameter, names)


def _unknown(parameter: str, names: Iterable[str]) -> RequestError:
    return RequestError(f"illegal {parameter} parameter; must be [{', '.join(names)}]")
