"""Parse a user document of the database: account, roles, stored password.

Pure. A document without the shape of a user counts as no user: a login with it fails exactly like
one with an unknown name.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from docgraph.auth.authenticators.sections import DbRealmAuthenticator
from docgraph.codec.patterns import RolesPath
from docgraph.exchange import Account, Document

# These properties are the user id in accounts of JWTs. Users who may edit their own document must
# not be able to write another id there.
_NAMES_OF_ID: Final = ("sub", "userid")
_HEX_LENGTHS = {"MD5": 32, "SHA-256": 64}


@dataclass(frozen=True, slots=True)
class User:
    """A user and the stored password; its repr contains no secrets."""

    account: Account
    password: str | None = field(default=None, repr=False)
    ha1: Any = field(default=None, repr=False)

    def find_ha1(self, algorithm: str) -> str | None:
        """Return the stored HA1: one hex text, or several by their algorithm."""
        value = self.ha1.get(algorithm) if isinstance(self.ha1, Mapping) else self.ha1
        if isinstance(value, str) and len(value) == _HEX_LENGTHS.get(algorithm):
            return value.lower()
        return None


class UserReader:
    """Parses documents as the section configures."""

    def __init__(self, section: DbRealmAuthenticator) -> None:
        self._section = section
        self.roles = RolesPath(section.json_path_roles)

    def read(self, name: str, document: Document) -> User | None:
        """Return the user of that name; the account has no secret, and no id but the user's own."""
        # An array of names matches a filter on one of them, and a collation ignores case.
        if find_value(document, self._section.prop_id) != name:
            return None
        secret = {self._section.prop_password, self._section.prop_ha1}
        properties = {key: value for key, value in document.items() if key not in secret}
        roles = self.roles.read(properties)
        if roles is None:
            return None
        for key in _NAMES_OF_ID:
            if properties.get(key) != name:
                properties.pop(key, None)
        password = document.get(self._section.prop_password)
        return User(
            Account(name, roles, properties, "database"),
            password if isinstance(password, str) else None,
            document.get(self._section.prop_ha1) if self._section.prop_ha1 else None,
        )


def find_value(document: Mapping[str, Any], path: str) -> Any:
    """Return the value at a path in dot notation, or None."""
    value: Any = document
    for part in path.split("."):
        if not isinstance(value, Mapping):
            return None
        value = value.get(part)
    return value


def put_value(document: Document, path: str, value: Any) -> None:
    """Set a value at a path in dot notation, keeping its siblings."""
    *parents, last = path.split(".")
    for part in parents:
        document = document.setdefault(part, {})
    document[last] = value
