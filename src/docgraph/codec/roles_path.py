"""Path to the roles of a user (`json-path-roles`), shared by authentication and authorization.

The code that authenticates users and the code that protects the users' collection read the same
documents with it, so that both always see the same roles.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final, Protocol

from docgraph.config.sources import CONFIGURATION
from docgraph.exchange import ConfigError, Document, Problem

_PLAIN_PATH: Final = re.compile(r"\$((?:\.[A-Za-z_]\w*)+)(\[\*\])?")


class RolesPath:
    """A compiled JSON path (RFC 9535); raises `ConfigError`.

    `place` is where roles can be written, in dot notation. `exact` is the same if a condition on it
    decides exactly who has a role. `property` is the one property that contains everything the path
    reads (None: it could be any). With `is_monotone`, removing or changing something never adds a
    role.
    """

    __slots__ = ("_query", "exact", "is_monotone", "place", "property", "text")

    def __init__(self, text: str) -> None:
        plain = _PLAIN_PATH.fullmatch(text)
        self.text = text
        self.place = plain[1][1:] if plain else None
        # `[*]` also matches the values of an object, and the texts in arrays inside an array.
        self.exact = None if text.endswith("[*]") else self.place
        self._query = _compile(text, plain)
        self.property = self._query.property
        self.is_monotone = self._query.is_monotone

    def read(self, document: Document) -> tuple[str, ...] | None:
        """Return the roles; None if the value is no list. Values other than text are no roles."""
        values = self._query.find_values(document)
        if values is None or (self._query.names_one and values and not isinstance(values[0], list)):
            return None
        flat = [role for node in values for role in (node if isinstance(node, list) else [node])]
        # Not `isinstance`: JavaScript code of the database is a subclass of str here, and no role.
        return tuple(dict.fromkeys(role for role in flat if type(role) is str))


class _Query(Protocol):
    property: str | None
    is_monotone: bool
    names_one: bool  # the path leads to one value at most

    def find_values(self, document: Document) -> list[Any] | None:
        """Return the values at the path; None if the document is nested beyond the limit."""


def _compile(text: str, plain: re.Match[str] | None) -> _Query:
    if plain:
        return _NamesQuery(plain[1][1:].split("."), is_each=plain[2] is not None)
    from docgraph.codec.roles_query import RolesQuery  # most installations need no library for it

    try:
        return RolesQuery(text)
    except ValueError as error:
        raise ConfigError(
            [
                Problem(
                    CONFIGURATION,
                    "/dbRealmAuthenticator/json-path-roles",
                    f"not a JSON path (RFC 9535): {error}",
                    "write it like $.roles",
                )
            ]
        ) from None


class _NamesQuery:
    """A path of names, `[*]` at its end perhaps."""

    is_monotone = True

    def __init__(self, names: list[str], *, is_each: bool) -> None:
        self.property: str | None = names[0]
        self.names_one = not is_each
        self._names = names

    def find_values(self, document: Document) -> list[Any]:
        value: Any = document
        for name in self._names:
            if not isinstance(value, Mapping) or name not in value:
                return []
            value = value[name]
        if self.names_one:
            return [value]
        if isinstance(value, Mapping):
            return list(value.values())
        return value if isinstance(value, list) else []
