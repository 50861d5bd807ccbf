"""Role escalation (privilege escalation): `rootRoleGuard`, and writes that could give a role.

Where it is not known what a write would store, it counts as escalation.

Two users of one name cannot log in (`dbRealmAuthenticator`): a caller who could give the name of an
administrator to another user would lock the administrator out.

Where the path of the roles is plain (`$.roles`, `$.profile.roles`), a condition of the database
excludes users who hold a role from a write. No condition can express other paths
(`$.grants[*].role`, `$..role`, `$.roles[0]`, filters): there the users that the write would find
are read first, and their roles are evaluated as at login.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain
from typing import Any, ClassVar, Final

from docgraph.access.authorize import report_denial
from docgraph.access.enforce import restrict
from docgraph.access.rule_authorizers import AUTHORIZER, DbAclAuthorizer
from docgraph.access.sections import RootRoleGuard as RootRoleGuardConfig
from docgraph.auth.authenticators.sections import DbRealmAuthenticator
from docgraph.codec.roles_path import RolesPath
from docgraph.exchange import Account, Consistency, Document, Exchange, Resource, Write, WriteKind
from docgraph.exchange.errors import RequestError, SecurityViolation
from docgraph.plugins.kinds import DataInterceptor
from docgraph.plugins.registry import PluginRegistry
from docgraph.store import Store
from docgraph.store.guard.write_effects import REMOVING, ChangeOrigin, WrittenChange, effects_of
from docgraph.store.names import walk

_ETAG: Final = "_etag"  # every write sets it, to nothing that could be a role


@dataclass(frozen=True, slots=True)
class RolePlace:
    """The path of the roles, and the properties that a login reads no roles from."""

    path: RolesPath
    secrets: frozenset[str] = frozenset()

    @classmethod
    def of(cls, users: DbRealmAuthenticator) -> RolePlace:
        """Return the place that the section of the users configures."""
        names = (users.prop_password, users.prop_ha1)
        return cls(RolesPath(users.json_path_roles), frozenset(name for name in names if name))

    def concerns(self, path: str) -> bool:
        """Return whether roles could depend on the value at a path in dot notation."""
        first = path.split(".", 1)[0]
        if self.path.property is None:
            return first not in self.secrets and first != _ETAG
        return first == self.path.property

    def is_held(self, document: Document, role: str) -> bool:
        """Return whether a stored user has the role; an unreadable user has it if it could."""
        shown = {key: value for key, value in document.items() if key not in self.secrets}
        roles = self.path.read(shown)
        return holds_text(shown, role) if roles is None else role in roles


def holds_text(value: Any, text: str) -> bool:
    """Return whether the text occurs anywhere in a value, as a value or as a name."""
    return any(part == text for part in walk(value, keys=True))


_NAMELESS: Final = REMOVING | {"$rename", "$currentDate", "$inc"}
_CALCULATING: Final = frozenset({"$mul", "$bit"})


class UnknownNames(Exception):
    """Only the database could determine which names would be stored."""


def written_names(write: Write, property: str) -> frozenset[str]:
    """Return every text that the write could store there, perhaps more; raises `UnknownNames`."""
    first = property.split(".", 1)[0]
    if first == "_id":
        return frozenset()  # the database itself keeps them distinct
    names: list[Any] = []
    for change in chain.from_iterable(effects_of(write).parts):
        if change.path is not None and change.path.split(".", 1)[0] != first:
            continue
        if change.is_computed or change.operator in _CALCULATING:
            raise UnknownNames
        if change.operator not in _NAMELESS:
            names += walk(change.operand)  # a name in an array matches the user, too
    if write.upsert:
        names += walk(write.filter)  # its equalities are stored
    return frozenset(name for name in names if isinstance(name, str))


_DETERMINED: Final = frozenset({"$set", "$setOnInsert", "$unset"})


class OwnRoles(Exception):
    """A write of several users would change the caller's own roles."""


def may_give(write: Write, role: str, place: RolePlace) -> bool:
    """Return whether the write could give that role to a user who does not have it."""
    return any(_gives(change, role, place) for change in effects_of(write).changes)


def keep_own_roles(
    write: Write, account: Account, users: DbRealmAuthenticator, place: RolePlace
) -> Write:
    """Exclude the caller's own user from a write that changes roles; or raise `OwnRoles`."""
    others = {users.prop_id: {"$ne": (account.owner or account).name}}
    if write.kind is WriteKind.UPDATE:
        changes = chain.from_iterable(effects_of(write).parts)
        return (
            restrict(write, others)
            if any(_concerns(change, place) for change in changes)
            else write
        )
    if write.kind is not WriteKind.REPLACE:
        return write
    if len(write.documents) > 1:
        if any(_is_own(user, account, users) and _has(user, place) for user in write.documents):
            raise OwnRoles
        return write
    (document,) = write.documents
    if not _has(document, place):
        return write
    property = place.path.property
    if property is None or property not in document:
        return restrict(write, others)
    return restrict(write, {"$or": [others, {property: {"$eq": document[property]}}]})


def _is_own(document: Document, account: Account, users: DbRealmAuthenticator) -> bool:
    name: Any = document
    user = account.owner or account
    for step in users.prop_id.split("."):
        name = name.get(step) if isinstance(name, Mapping) else None
    same_id = "_id" in document and document["_id"] == user.properties.get("_id")
    return same_id or bool(name == user.name)


def _has(document: Document, place: RolePlace) -> bool:
    """Return whether a document has roles; writing no roles needs no protection."""
    if place.path.property is None:
        return True
    return any(bool(value) and place.concerns(key) for key, value in document.items())


def _concerns(change: WrittenChange, place: RolePlace) -> bool:
    return change.path is None or place.concerns(change.path)


def _gives(change: WrittenChange, role: str, place: RolePlace) -> bool:
    if not _concerns(change, place):
        return False
    if change.is_computed or (not place.path.is_monotone and _rearranges(change, place)):
        return True
    return change.operator not in REMOVING and holds_text(change.operand, role)


def _rearranges(change: WrittenChange, place: RolePlace) -> bool:
    """Return whether a stored value could become a role because of a change around it.

    `$.grants[?@.on].role` or `$.roles[0]` are such paths: `{"$set": {"grants.0.on": true}}` and
    `{"$pop": {"roles": -1}}` give a role without naming it. Only values written as a whole are
    certain.
    """
    if change.origin in (ChangeOrigin.DOCUMENT, ChangeOrigin.FILTER):
        return False
    return change.operator not in _DETERMINED or change.path != place.path.property


MAX_USERS: Final = 1000  # that one write may find, where they have to be read
_AT_A_TIME: Final = 50  # checked before other requests get their turn
_NO_USER: Final[Mapping[str, Any]] = {"$nor": [{}]}

FindUsers = Callable[[Mapping[str, Any], int], Awaitable[list[Document]]]


async def spare_holders(write: Write, role: str, place: RolePlace, find: FindUsers) -> Write:
    """Exclude the users who have that role from the write; `find` reads users."""
    if write.kind in (WriteKind.INSERT, WriteKind.CREATE):
        return write
    if place.path.exact is not None:
        return restrict(write, {place.path.exact: {"$ne": role}})
    if write.kind is WriteKind.DROP:
        return restrict(write, _NO_USER)  # only a part of the users could be removed
    users = await find(_reach(write), MAX_USERS + 1)
    _check_number(users)
    free = await _without(users, role, place)
    return restrict(write, _limit_to([_unchanged(user, place) for user in free], write.upsert))


def _check_number(users: Sequence[Document]) -> None:
    if len(users) > MAX_USERS:
        raise RequestError(
            f"the write would find more than {MAX_USERS} users",
            hint="the path of the roles can only be looked at user by user: narrow the filter",
        )


async def _without(users: Sequence[Document], role: str, place: RolePlace) -> list[Document]:
    free: list[Document] = []
    for index, user in enumerate(users):
        if index and index % _AT_A_TIME == 0:
            await asyncio.sleep(0)
        if not place.is_held(user, role):
            free.append(user)
    return free


def _reach(write: Write) -> Mapping[str, Any]:
    """Return a filter that finds every user whom the write could find."""
    if write.kind is not WriteKind.REPLACE or (write.filter and len(write.documents) == 1):
        return write.filter
    by_id = {"_id": {"$in": [document.get("_id") for document in write.documents]}}
    return {"$and": [by_id, write.filter]} if write.filter else by_id


def _limit_to(users: list[Document], upsert: bool) -> Mapping[str, Any]:
    if not users:
        return _NO_USER
    # An upsert stores the equalities of `$or`, and fails where the filter has the same ones.
    return {"$nor": [{"$nor": users}]} if upsert else {"$or": users}


def _unchanged(user: Document, place: RolePlace) -> Document:
    """Return a filter that matches this user while its roles cannot have changed."""
    property = place.path.property
    names = [name for name in user if _is_plain(name)] if property is None else [property]
    condition = {
        name: {"$eq": user[name]} if name in user else {"$exists": False}
        for name in names
        if name not in place.secrets
    }
    return {**condition, "_id": {"$eq": user["_id"]}}


def _is_plain(name: str) -> bool:
    """Return whether a condition can address that property and nothing else."""
    return bool(name) and name[0] != "$" and "." not in name


_PRIMARY: Final = Consistency(preference="primary")  # checks read what the write will find


class RootRoleGuard(DataInterceptor):
    """Prevents role escalation by requests; the command line is not restricted.

    No write gives the root role, and callers cannot change their own roles. Writes of callers
    without the root role do not find users who have it, and a write that changes roles does not
    find the caller: a rule that lets users edit themselves must not let them promote themselves.
    """

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
        if self._registry.find("dbRealmAuthenticator") is not None:
            self._place = RolePlace.of(self._users)

    def resolve(self, resource: Resource) -> bool:
        """Return whether the resource is the users collection or one of its documents."""
        if self._place is None:
            return False
        return resource.is_in(self._users.users_db, self._users.users_collection)

    def gives_root_role(self, write: Write) -> bool:
        """Return whether the write could give the root role, for commands that must not."""
        if self._role is None or self._place is None:
            return False
        return may_give(write, self._role, self._place)

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
        except UnknownNames:
            return True
        if not names:
            return False
        condition: Document = {property: {"$in": sorted(names)}}
        if place.path.exact is not None:  # a write of many names may find more users than are read
            condition[place.path.exact] = role
        users = await self._find(exchange, condition, MAX_USERS + 1)
        if any(place.is_held(user, role) for user in users):
            return True
        _check_number(users)
        return False

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
        report_denial(exchange, self.name, reason)
        return SecurityViolation("Forbidden. The request has been logged.")
