"""Costs of the stored password hashes: a failed check costs as much as the most expensive (53)."""

from __future__ import annotations

from typing import ClassVar, Final, cast

from docgraph.auth.authenticators.db_users import REALM, DatabaseRealm, find_value
from docgraph.auth.authenticators.sections import MAX_COST
from docgraph.config.section import PluginConfig
from docgraph.exchange import Deadline
from docgraph.plugins.kinds import Initializer
from docgraph.plugins.registry import PluginRegistry
from docgraph.runtime import Instance
from docgraph.store import Store

_SCAN_MS: Final = 120_000

_COSTS: Final = 100  # two digits

_HASH: Final = r"^\$2[aby]\$"


class PasswordCosts(Initializer):
    """Finds the highest cost of a hash once; the realm records later reads and writes.

    A failed login takes as long as the most expensive hash (decision 53). Hashes above the maximum
    are ignored: they would make every failed login take that long.
    """

    name: ClassVar[str] = "passwordCostScanner"
    description: ClassVar[str] = "finds the most expensive password hash"
    security: ClassVar[bool] = True

    def __init__(
        self, config: PluginConfig, registry: PluginRegistry, store: Store, instance: Instance
    ) -> None:
        self.config = config
        self._registry = registry
        self._store = store
        # The result is shared: one worker of an instance suffices.
        self._is_needed = instance.worker <= 1
        self._realm: DatabaseRealm | None = None

    async def provision(self) -> None:
        """Find the realm; without it there are no hashes."""
        self._realm = cast("DatabaseRealm | None", self._registry.find(REALM))

    async def initialize(self) -> None:
        realm = self._realm
        if realm is None or not self._is_needed or not realm.config.bcrypt_hashed_password:
            return
        password = f"${realm.config.prop_password}"
        is_text = {"$eq": [{"$type": password}, "string"]}  # an array of texts matches, too
        costs = await self._store.reads.aggregate(
            realm.config.users_db,
            realm.config.users_collection,
            [
                {"$match": {realm.config.prop_password: {"$regex": _HASH}}},
                {"$match": {"$expr": is_text}},
                {"$group": {"_id": {"$substrCP": [password, 4, 2]}, "one": {"$first": password}}},
            ],
            limit=_COSTS,
            deadline=Deadline.after_ms(_SCAN_MS),
            reveal=realm.keys,
        )
        for group in costs:
            realm.passwords.record(group["one"])


async def find_too_expensive(store: Store, realm: DatabaseRealm, limit: int) -> list[str]:
    """Return users whose hash is above the maximum, who cannot log in with a password."""
    section = realm.config
    if not section.bcrypt_hashed_password:
        return []
    above = "|".join(f"{cost:02}" for cost in range(MAX_COST + 1, _COSTS))
    documents = await store.reads.find(
        section.users_db,
        section.users_collection,
        {section.prop_password: {"$regex": rf"{_HASH}({above})\$"}},
        projection={section.prop_id: 1},
        limit=limit,
        deadline=Deadline.after_ms(_SCAN_MS),
        reveal=realm.keys,
    )
    return [str(find_value(document, section.prop_id)) for document in documents]
