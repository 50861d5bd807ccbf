"""`rootRoleGuard`: prevent role escalation over the network.

No write over the network gives the root role, and callers cannot change their own roles. Writes of
callers without the root role do not find users who have it, and a write that changes roles does not
find the caller: a rule that lets users edit themselves must not let them promote themselves
(`role_escalation.py`). The command line may do all of it.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any, ClassVar, Final

from docgraph.access.db_rules import AUTHORIZER, DbAclAuthorizer
from docgraph.access.role_escalation import (
    MAX_USERS,
    OwnRoles,
    RolePlace,
    Untold,
    keep_own_roles,
    may_give,
    spare_holders,
    written_names,
)
from docgraph.access.sections import RootRoleGuard as RootRoleGuardConfig
from docgraph.auth.authenticators.sections import DbRealmAuthenticator
from docgraph.exchange import Consistency, Document, Exchange, Resource, Write
from docgraph.exchange.errors import SecurityViolation
from docgraph.observe import emit
from docgraph.observe.events import AccessDenied
from docgraph.plugins.kinds import DataInterceptor
from docgraph.plugins.registry import PluginRegistry
from docgraph.store import Store

_REALM: Final = "dbRealmAuthenticator"
_PRIMARY: Final = Consistency(preference="primary")  # checks read what the write will find


class RootRoleGuard(DataInterceptor):
    """Rejects writes to users that would give or take over the root role, or change own roles."""

    name: ClassVar[str] = "rootRoleGuard"
    description: ClassVar[str] = "refuses to give users the root role, and to change own roles"
    security: ClassVar[bool] = True
    priority: ClassVar[int] = 910
    Config = RootRoleGuardConfig

    def __init__(
        self,
        config: RootRoleGuardConfig,
        registry: PluginRegistry,
        users: DbRealmAuthenticator,
        store: Store,
    ) -> None:
        self.config = config
        self._store = store
        self._registry = registry
        self._users = users
        self._role: str | None = None
        self._place: RolePlace | None = None

    async def provision(self) -> None:
        """Disable the guard when there are no users."""
        authorizer = self._registry.find(AUTHORIZER)
        if isinstance(authorizer, DbAclAuthorizer):
            self._role = authorizer.config.root_role
        if self._registry.find(_REALM) is not None:
            self._place = RolePlace.of(self._users)

    def resolve(self, resource: Resource) -> bool:
        """Return whether the resource is the users collection or one of its documents."""
        if self._place is None:
            return False
        return resource.is_in(self._users.users_db, self._users.users_collection)

    async def before_write(
        self, exchange: Exchange | None, resource: Resource, write: Write
    ) -> Write:
        """Return the write, or raise 403 if it gives the role, also for callers who have it."""
        if exchange is None or self._place is None:
            return write
        account, role, place = exchange.account, self._role, self._place
        if role is not None:
            if may_give(write, role, place):
                raise self._reject(exchange, f"the write would give the role {role}")
            if account is not None and role in account.roles:
                return write
            if await self._takes_name(exchange, write, role, place):
                raise self._reject(exchange, f"the write would use the name of a user with {role}")
            write = await spare_holders(write, role, place, partial(self._find, exchange))
        if account is None:
            return write
        try:
            return keep_own_roles(write, account, self._users, place)
        except OwnRoles:
            raise self._reject(exchange, "the write would change the roles of the caller") from None

    async def _takes_name(
        self, exchange: Exchange, write: Write, role: str, place: RolePlace
    ) -> bool:
        """Return whether a user could get the name of a user with the role, and lock that user out.

        A write to that very user does not count: it does not find them (`spare_holders`).
        """
        property = self._users.prop_id
        try:
            names = written_names(write, property)
        except Untold:
            return True
        if not names:
            return False
        condition = {property: {"$in": sorted(names)}}
        found = await self._find(exchange, condition, MAX_USERS)
        return any(place.is_held(user, role) for user in found)

    async def _find(
        self, exchange: Exchange, filter: Mapping[str, Any], limit: int
    ) -> list[Document]:
        """Return users as they are stored, without their secrets."""
        property = self._place.path.property if self._place else None
        return await self._store.reads.find(
            self._users.users_db,
            self._users.users_collection,
            filter,
            projection=None if property is None else {property: 1},
            limit=limit,
            deadline=exchange.deadline,
            comment={"request": exchange.id},
            consistency=_PRIMARY,
            transaction=exchange.transaction,
        )

    def _reject(self, exchange: Exchange, reason: str) -> SecurityViolation:
        request = exchange.request
        name = exchange.account.name if exchange.account else ""
        emit(AccessDenied(exchange.id, self.name, reason, name, request.method, request.path))
        return SecurityViolation("Forbidden. The request has been logged.")
