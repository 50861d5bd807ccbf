"""The user behind an account, read again: a renewed token says what is true now (decision 32)."""

from __future__ import annotations

from typing import Final, Protocol, cast

from docgraph.exchange import Account
from docgraph.plugins.registry import PluginRegistry

__all__ = ["Realms"]

# An account of another kind comes from the plugin of that name, if there is one.
_REALMS: Final = {"database": "dbRealmAuthenticator", "file": "fileRealmAuthenticator"}


class _FindsUsers(Protocol):
    async def find(self, user: str) -> Account | None:
        """The account as it is now."""
        ...


class Realms:
    """The authenticators that can tell of a user without a password."""

    def __init__(self, registry: PluginRegistry) -> None:
        self._registry = registry

    async def read_again(self, account: Account) -> Account | None:
        """The account as its realm knows it now, None when it does not any more.

        An account that no realm here can look up, such as one from somebody else's JWT, stays as it
        is.
        """
        realm = self._registry.find(_REALMS.get(account.kind, account.kind))
        if realm is None or not hasattr(realm, "find"):
            return Account(account.name, account.roles, account.properties, account.kind)
        return await cast("_FindsUsers", realm).find(account.name)
