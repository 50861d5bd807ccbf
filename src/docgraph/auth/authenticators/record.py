"""A user document as the database realm reads it: account, roles, what proves the password.

Pure. A document that does not have the shape of a user is nobody: it neither logs in nor fails in
another way than an unknown name.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from jsonpath import JSONPath, JSONPathEnvironment, JSONPathError

from docgraph.config.locate import CONFIGURATION
from docgraph.config.sections import DbRealmAuthenticator
from docgraph.exchange import Account, ConfigError, Document, Problem

__all__ = ["RolesPath", "User", "UserReader", "find_value", "put_value"]

_PLAIN_PATH = re.compile(r"\$((?:\.[A-Za-z_]\w*)+)(?:\[\*\])?")
_HEX_LENGTHS = {"MD5": 32, "SHA-256": 64}


@dataclass(frozen=True, slots=True)
class User:
    """A user and what is stored of the password; the secrets are in no text about it."""

    account: Account
    password: str | None = field(default=None, repr=False)
    ha1: Any = field(default=None, repr=False)

    def find_ha1(self, algorithm: str) -> str | None:
        """The stored HA1: one hex text, or several by their algorithm."""
        value = self.ha1.get(algorithm) if isinstance(self.ha1, Mapping) else self.ha1
        if isinstance(value, str) and len(value) == _HEX_LENGTHS.get(algorithm):
            return value.lower()
        return None


class RolesPath:
    """`json-path-roles`: where the roles stand (RFC 9535)."""

    def __init__(self, text: str) -> None:
        try:
            query = JSONPathEnvironment(strict=True).compile(text)
        except JSONPathError as error:
            raise ConfigError(
                [
                    Problem(
                        CONFIGURATION,
                        "/dbRealmAuthenticator/json-path-roles",
                        f"not a JSON path (RFC 9535): {error.args[0]}",
                        "write it like $.roles",
                    )
                ]
            ) from None
        assert isinstance(query, JSONPath)  # noqa: S101 - strict paths are never compound
        plain = _PLAIN_PATH.fullmatch(text)
        self.place = plain[1][1:] if plain else None  # in dot notation, where roles can be written
        self._query = query
        self._names_one = query.singular_query()

    def read(self, document: Document) -> tuple[str, ...] | None:
        """The roles; None when what stands there is no list. What is not text is no role."""
        try:
            found = self._query.findall(document)
        except JSONPathError:  # nested beyond its bound
            return None
        if self._names_one and found and not isinstance(found[0], list):
            return None
        flat = [role for one in found for role in (one if isinstance(one, list) else [one])]
        return tuple(dict.fromkeys(role for role in flat if isinstance(role, str)))


class UserReader:
    """Reads documents as the section says."""

    def __init__(self, section: DbRealmAuthenticator) -> None:
        self._section = section
        self.roles = RolesPath(section.json_path_roles)

    def read(self, name: str, document: Document) -> User | None:
        """The user of that name; the properties of the account hold no secret."""
        # An array of names matches a filter on one of them, and a collation matches other cases.
        if find_value(document, self._section.prop_id) != name:
            return None
        secret = {self._section.prop_password, self._section.prop_ha1}
        properties = {key: value for key, value in document.items() if key not in secret}
        roles = self.roles.read(properties)
        if roles is None:
            return None
        password = document.get(self._section.prop_password)
        return User(
            Account(name, roles, properties, "database"),
            password if isinstance(password, str) else None,
            document.get(self._section.prop_ha1) if self._section.prop_ha1 else None,
        )


def find_value(document: Mapping[str, Any], path: str) -> Any:
    """The value at a path in dot notation, None when there is none."""
    value: Any = document
    for part in path.split("."):
        if not isinstance(value, Mapping):
            return None
        value = value.get(part)
    return value


def put_value(document: Document, path: str, value: Any) -> None:
    """Put a value at a path in dot notation, beside what is there."""
    *parents, last = path.split(".")
    for part in parents:
        document = document.setdefault(part, {})
    document[last] = value
