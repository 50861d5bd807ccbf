"""Where the roles of users stand, for those who guard them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from docgraph.auth.authenticators.sections import DbRealmAuthenticator
from docgraph.codec.roles_path import RolesPath
from docgraph.exchange import Document

__all__ = ["RolePlace", "holds_text"]

_ETAG: Final = "_etag"  # every write sets it, to nothing that could be a role


@dataclass(frozen=True, slots=True)
class RolePlace:
    """The path of the roles, and the properties that a login reads no roles from."""

    path: RolesPath
    secrets: frozenset[str] = frozenset()

    @classmethod
    def of(cls, users: DbRealmAuthenticator) -> RolePlace:
        """The place as the section of the users says."""
        names = (users.prop_password, users.prop_ha1)
        return cls(RolesPath(users.json_path_roles), frozenset(name for name in names if name))

    def concerns(self, path: str) -> bool:
        """Whether roles could depend on what stands at a path in dot notation."""
        first = path.split(".", 1)[0]
        if self.path.property is None:
            return first not in self.secrets and first != _ETAG
        return first == self.path.property

    def is_held(self, document: Document, role: str) -> bool:
        """Whether a stored user has the role; one that cannot be read has it if it could."""
        shown = {key: value for key, value in document.items() if key not in self.secrets}
        roles = self.path.read(shown)
        return holds_text(shown, role) if roles is None else role in roles


def holds_text(value: Any, text: str) -> bool:
    """Whether the text stands anywhere in a value, as a value or as a name."""
    if isinstance(value, Mapping):
        return any(key == text or holds_text(item, text) for key, item in value.items())
    if isinstance(value, list | tuple):
        return any(holds_text(item, text) for item in value)
    return bool(value == text)
