"""`rootRoleGuard`: nobody gets the root role over the network, nor other roles by own hand.

Users who have the role are not there for the writes of callers without it (`role_holders`), and
neither is the caller for a write that touches roles: a rule that lets users edit themselves must
not let them promote themselves (`role_gifts`). The command line may do all of it.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any, ClassVar, Final

from docgraph.access.database import AUTHORIZER, DbAclAuthorizer
from docgraph.access.role_gifts import OwnRoles, keep_own_roles, may_give
from docgraph.access.role_holders import MOST_USERS, spare_holders
from docgraph.access.role_names import Untold, written_names
from docgraph.access.role_place import RolePlace
from docgraph.access.sections import RootRoleGuard as RootRoleGuardConfig
from docgraph.auth.authenticators.sections import DbRealmAuthenticator
from docgraph.exchange import Consistency, Document, Exchange, Resource, Write
from docgraph.exchange.errors import SecurityViolation
from docgraph.observe import emit
from docgraph.observe.events import AccessDenied
from docgraph.plugins.kinds import DataInterceptor
from docgraph.plugins.registry import PluginRegistry
from docgraph.store import Store

__all__ = ["RootRoleGuard"]

_REALM: Final = "dbRealmAuthenticator"
_PRIMARY: Final = Consistency(preference="primary")  # what is judged is what will be written


class RootRoleGuard(DataInterceptor):
    """Refuses writes to users that would give, or take over, the root role, or change own roles."""

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
        """Rest where there are no users."""
        authorizer = self._registry.find(AUTHORIZER)
        if isinstance(authorizer, DbAclAuthorizer):
            self._role = authorizer.config.root_role
        if self._registry.find(_REALM) is not None:
            self._place = RolePlace.of(self._users)

    def resolve(self, resource: Resource) -> bool:
        """The users collection and its documents."""
        if self._place is None:
            return False
        return resource.is_in(self._users.users_db, self._users.users_collection)

    async def before_write(
        self, exchange: Exchange | None, resource: Resource, write: Write
    ) -> Write:
        """The write, or 403 for a gift, also by those who have the role themselves."""
        if exchange is None or self._place is None:
            return write
        account, role, place = exchange.account, self._role, self._place
        if role is not None:
            if may_give(write, role, place):
                raise self._refuse(exchange, f"the write would give the role {role}")
            if account is not None and role in account.roles:
                return write
            if await self._takes_name(exchange, write, role, place):
                raise self._refuse(exchange, f"the write would use the name of a user with {role}")
            write = await spare_holders(write, role, place, partial(self._find, exchange))
        if account is None:
            return write
        try:
            return keep_own_roles(write, account, self._users, place)
        except OwnRoles:
            raise self._refuse(exchange, "the write would change the roles of the caller") from None

    async def _takes_name(
        self, exchange: Exchange, write: Write, role: str, place: RolePlace
    ) -> bool:
        """Whether a user could get the name of one who has the role, and keep them from logging in.

        The write of that very user is none of it: it does not find them (`spare_holders`).
        """
        property = self._users.prop_id
        try:
            names = written_names(write, property)
        except Untold:
            return True
        if not names:
            return False
        condition = {property: {"$in": sorted(names)}}
        found = await self._find(exchange, condition, MOST_USERS)
        return any(place.is_held(user, role) for user in found)

    async def _find(
        self, exchange: Exchange, filter: Mapping[str, Any], limit: int
    ) -> list[Document]:
        """Users as they are stored, without their secrets."""
        property = self._place.path.property if self._place else None
        return await self._store.find(
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

    def _refuse(self, exchange: Exchange, reason: str) -> SecurityViolation:
        request = exchange.request
        name = exchange.account.name if exchange.account else ""
        emit(AccessDenied(exchange.id, self.name, reason, name, request.method, request.path))
        return SecurityViolation("Forbidden. The request has been logged.")
