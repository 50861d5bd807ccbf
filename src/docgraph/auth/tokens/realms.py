"""Read the user of an account again: a renewed token has current data (decision 32)."""

from __future__ import annotations

from typing import Final, Protocol, cast

from docgraph.exchange import Account
from docgraph.plugins.registry import PluginRegistry

# An account of another kind comes from the plugin of that name, if it exists.
_REALMS: Final = {"database": "dbRealmAuthenticator", "file": "fileRealmAuthenticator"}


class _FindsUsers(Protocol):
    async def find(self, user: str) -> Account | None:
        """Return the current account."""
        ...


class Realms:
    """The authenticators that can find a user without a password."""

    def __init__(self, registry: PluginRegistry) -> None:
        self._registry = registry

    async def read_again(self, account: Account) -> Account | None:
        """Return the current account of its realm, None when it no longer exists.

        An account that no realm here can look up, such as one from a foreign JWT, stays unchanged.
        """
        realm = self._registry.find(_REALMS.get(account.kind, account.kind))
        if realm is None or not hasattr(realm, "find"):
            return Account(account.name, account.roles, account.properties, account.kind)
        return await cast("_FindsUsers", realm).find(account.name)
