"""`rootRoleGuard`: nobody gets the root role over the network, nor other roles by own hand.

It looks at every shape a write can have: documents, operators, dotted keys, the filter of an
upsert, pipelines. Where it cannot tell what would be stored, it refuses. Users who have the role
are not there for the writes of callers without it, and neither is the caller for a write that
touches roles: a rule that lets users edit themselves must not let them promote themselves. The
command line may do all of it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, ClassVar, Final

from docgraph.access.database import AUTHORIZER, DbAclAuthorizer
from docgraph.access.enforce import restrict
from docgraph.config.section import Section
from docgraph.config.sections import DbRealmAuthenticator
from docgraph.config.sections import RootRoleGuard as RootRoleGuardConfig
from docgraph.exchange import (
    Account,
    DataPoint,
    Document,
    Exchange,
    Resource,
    Write,
    WriteKind,
)
from docgraph.exchange.errors import SecurityViolation
from docgraph.observe import emit
from docgraph.observe.events import AccessDenied
from docgraph.plugins.kinds import DataInterceptor
from docgraph.plugins.registry import PluginRegistry

__all__ = [
    "OwnRoles",
    "RootRoleGuard",
    "find_property",
    "keep_own_roles",
    "may_give",
    "spare_holders",
]

_REALM: Final = "dbRealmAuthenticator"
_TAKING: Final = frozenset({"$pull", "$pullAll", "$pop", "$unset"})
_WHOLE: Final = frozenset({"$replaceRoot", "$replaceWith"})
_PLAIN_PATH: Final = re.compile(r"\$\.((?:[^.\[\]*$]+\.)*[^.\[\]*$]+)(?:\[\*\])?")


class RootRoleGuard(DataInterceptor):
    """Refuses writes to users that would give, or take over, the root role, or change own roles."""

    name: ClassVar[str] = "rootRoleGuard"
    description: ClassVar[str] = "refuses to give users the root role, and to change own roles"
    security: ClassVar[bool] = True
    point: ClassVar[DataPoint] = DataPoint.BEFORE_WRITE
    priority: ClassVar[int] = 910
    Config = RootRoleGuardConfig

    def __init__(
        self,
        config: RootRoleGuardConfig,
        registry: PluginRegistry,
        configuration: Mapping[str, Section],
    ) -> None:
        self.config = config
        self._registry = registry
        self._users = configuration[_REALM]
        self._role: str | None = None
        self._has_users = False

    async def provision(self) -> None:
        """Rest where there are no users."""
        authorizer = self._registry.find(AUTHORIZER)
        self._has_users = self._registry.find(_REALM) is not None
        if isinstance(authorizer, DbAclAuthorizer):
            self._role = authorizer.config.root_role

    @property
    def users(self) -> DbRealmAuthenticator:
        """The section of the users."""
        if not isinstance(self._users, DbRealmAuthenticator):
            raise TypeError(f"the section {_REALM!r} has another shape")
        return self._users

    def resolve(self, resource: Resource) -> bool:
        """The users collection and its documents."""
        if not self._has_users:
            return False
        return resource.is_in(self.users.users_db, self.users.users_collection)

    async def intercept(
        self, exchange: Exchange | None, resource: Resource, subject: Write
    ) -> Write:
        """The write, or 403 for a gift, also by those who have the role themselves."""
        if exchange is None:
            return subject
        account, role, users = exchange.account, self._role, self.users
        if role is not None:
            if may_give(subject, role, find_property(users.json_path_roles)):
                raise self._refuse(exchange, f"the write would give the role {role}")
            if account is not None and role in account.roles:
                return subject
            subject = spare_holders(subject, role, users.json_path_roles)
        if account is None:
            return subject
        try:
            return keep_own_roles(subject, account, users)
        except OwnRoles:
            raise self._refuse(exchange, "the write would change the roles of the caller") from None

    def _refuse(self, exchange: Exchange, reason: str) -> SecurityViolation:
        request = exchange.request
        name = exchange.account.name if exchange.account else ""
        emit(AccessDenied(exchange.id, self.name, reason, name, request.method, request.path))
        return SecurityViolation("Forbidden. The request has been logged.")


def find_property(json_path: str) -> str | None:
    """The property of a user that the path of the roles begins with; None: it could be any."""
    name = json_path.removeprefix("$").removeprefix(".").split(".", 1)[0].split("[", 1)[0]
    return name if name and name != "*" and not json_path.startswith("$..") else None


def spare_holders(write: Write, role: str, json_path: str) -> Write:
    """The write without those it finds who have that role; a path of its own kind spares nobody."""
    path = _PLAIN_PATH.fullmatch(json_path)
    return write if path is None else restrict(write, {path[1]: {"$ne": role}})


class OwnRoles(Exception):
    """A write of several users would change the roles of the one who writes."""


def keep_own_roles(write: Write, account: Account, users: DbRealmAuthenticator) -> Write:
    """The write without the caller's own user, where it would change roles; or `OwnRoles`."""
    property = find_property(users.json_path_roles)
    others = {users.prop_id: {"$ne": account.name}}
    if write.kind is WriteKind.UPDATE:
        return restrict(write, others) if _touches(write, property) else write
    if write.kind is not WriteKind.REPLACE:
        return write
    if len(write.documents) > 1:
        if any(_is_own(one, account, users) and _has(one, property) for one in write.documents):
            raise OwnRoles
        return write
    (document,) = write.documents
    if not _has(document, property):
        return write
    if property is None or property not in document:
        return restrict(write, others)
    return restrict(write, {"$or": [others, {property: {"$eq": document[property]}}]})


def _is_own(document: Document, account: Account, users: DbRealmAuthenticator) -> bool:
    name: Any = document
    for step in users.prop_id.split("."):
        name = name.get(step) if isinstance(name, Mapping) else None
    same_id = "_id" in document and document["_id"] == account.properties.get("_id")
    return same_id or bool(name == account.name)


def _has(document: Document, property: str | None) -> bool:
    """Whether a document has roles; to have none any more is nothing to keep anybody from."""
    if property is None:
        return True
    return any(bool(value) and _concerns(key, property) for key, value in document.items())


def _touches(write: Write, property: str | None) -> bool:
    fields = [one for one in (write.update or {}).values() if isinstance(one, dict)]
    if any(_concerns(path, property) for one in fields for path in one):
        return True
    stages = write.pipeline or ()
    return any(_stage_may_give(stage, property) for stage in stages) or _renames(write, property)


def may_give(write: Write, role: str, property: str | None) -> bool:
    """Whether the write could leave a user with that role below that property."""
    if any(_holds(part, role) for part in _parts(write, property)):
        return True
    if write.upsert and _filter_holds(write.filter, role, property):
        return True
    stages = write.pipeline or ()
    return any(_stage_may_give(stage, property) for stage in stages) or _renames(write, property)


def _parts(write: Write, property: str | None) -> Iterator[Any]:
    """What documents and operators put at the property, or below it."""
    for document in write.documents:
        yield from (value for key, value in document.items() if _concerns(key, property))
    for operator, fields in (write.update or {}).items():
        if operator in _TAKING or not isinstance(fields, dict):
            continue
        yield from (value for path, value in fields.items() if _concerns(path, property))


def _renames(write: Write, property: str | None) -> bool:
    """Whether something that nobody has looked at becomes the roles."""
    fields = (write.update or {}).get("$rename", {})
    targets = fields.values() if isinstance(fields, dict) else ()
    return any(isinstance(target, str) and _concerns(target, property) for target in targets)


def _stage_may_give(stage: Mapping[str, Any], property: str | None) -> bool:
    """A stage computes what it stores, so that any touch of the roles could give any role."""
    for name, body in stage.items():
        if name in _WHOLE:
            return True
        if name != "$unset" and isinstance(body, dict):
            return any(_concerns(key, property) for key in body)
    return False


def _filter_holds(filter: Any, role: str, property: str | None) -> bool:
    """An upsert stores the equalities of its filter, also those inside `$and` and `$or`."""
    if isinstance(filter, list | tuple):
        return any(_filter_holds(part, role, property) for part in filter)
    if not isinstance(filter, Mapping):
        return False
    return any(
        _filter_holds(value, role, property)
        if key[:1] == "$"
        else _concerns(key, property) and _holds(value, role)
        for key, value in filter.items()
    )


def _concerns(path: str, property: str | None) -> bool:
    return property is None or path.split(".", 1)[0] == property


def _holds(value: Any, role: str) -> bool:
    if isinstance(value, Mapping):
        return any(key == role or _holds(item, role) for key, item in value.items())
    if isinstance(value, list | tuple):
        return any(_holds(item, role) for item in value)
    return bool(value == role)
