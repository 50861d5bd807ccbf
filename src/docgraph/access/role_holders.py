"""Writes to users that do not find those who have a certain role.

Where the path of the roles is a plain one (`$.roles`, `$.profile.roles`), a condition of the
database says it all, and the write itself decides. Other paths (`$.grants[*].role`, `$..role`,
`$.roles[0]`, filters) no condition can express. There the users that the write would find are read
and judged by the same reading that logs users in, and the write is held to those without the role.

Between the two somebody may get the role. The write therefore finds a user only as long as what the
path looks at is as it was read: another user who gets the role meanwhile, or the same one, is not
touched. Where the path could look anywhere, that is every property that the user had; a role that
comes in a new property at that very moment is the one thing that can be overtaken, as it would be
by a write that came a moment earlier. It gives nobody the role, since no write ever stores it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Final

from docgraph.access.enforcing.enforce import restrict
from docgraph.access.role_place import RolePlace
from docgraph.exchange import Document, Write, WriteKind
from docgraph.exchange.errors import RequestError

__all__ = ["MOST_USERS", "FindUsers", "spare_holders"]

MOST_USERS: Final = 1000  # that one write may find, where they have to be read
_AT_A_TIME: Final = 50  # judged before others have their turn
_NOBODY: Final[Mapping[str, Any]] = {"$nor": [{}]}

FindUsers = Callable[[Mapping[str, Any], int], Awaitable[list[Document]]]


async def spare_holders(write: Write, role: str, place: RolePlace, find: FindUsers) -> Write:
    """The write without the users it finds who have that role; `find` reads users."""
    if write.kind in (WriteKind.INSERT, WriteKind.CREATE):
        return write
    if place.path.exact is not None:
        return restrict(write, {place.path.exact: {"$ne": role}})
    if write.kind is WriteKind.DROP:
        return restrict(write, _NOBODY)  # only a part of the users could be removed
    found = await find(_reach(write), MOST_USERS + 1)
    if len(found) > MOST_USERS:
        raise RequestError(
            f"the write would find more than {MOST_USERS} users",
            hint="the path of the roles can only be looked at user by user: narrow the filter",
        )
    free = await _without(found, role, place)
    return restrict(write, _limit_to([_unchanged(one, place) for one in free], write.upsert))


async def _without(users: Sequence[Document], role: str, place: RolePlace) -> list[Document]:
    free: list[Document] = []
    for index, user in enumerate(users):
        if index and index % _AT_A_TIME == 0:
            await asyncio.sleep(0)
        if not place.is_held(user, role):
            free.append(user)
    return free


def _reach(write: Write) -> Mapping[str, Any]:
    """A filter that finds every user whom the write could find."""
    if write.kind is not WriteKind.REPLACE or (write.filter and len(write.documents) == 1):
        return write.filter
    own = {"_id": {"$in": [document.get("_id") for document in write.documents]}}
    return {"$and": [own, write.filter]} if write.filter else own


def _limit_to(users: list[Document], upsert: bool) -> Mapping[str, Any]:
    if not users:
        return _NOBODY
    # An upsert stores the equalities of `$or`, and fails where the filter has the same ones.
    return {"$nor": [{"$nor": users}]} if upsert else {"$or": users}


def _unchanged(user: Document, place: RolePlace) -> Document:
    """Finds this user as long as nothing has changed that its roles depend on."""
    property = place.path.property
    names = [name for name in user if _is_plain(name)] if property is None else [property]
    condition = {name: _same(user, name) for name in names if name not in place.secrets}
    return {**condition, "_id": {"$eq": user["_id"]}}


def _same(user: Document, name: str) -> Document:
    return {"$eq": user[name]} if name in user else {"$exists": False}


def _is_plain(name: str) -> bool:
    """Whether a condition can be on that property and on nothing else."""
    return bool(name) and name[0] != "$" and "." not in name
