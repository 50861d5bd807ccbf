"""Which writes to users could give a role, or change the caller's own. Pure.

Every shape a write can have is looked at: documents, operators, dotted keys, the filter of an
upsert, pipelines. Where nobody can tell what would be stored, the answer is yes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from docgraph.access.enforcing.enforce import restrict
from docgraph.access.role_place import RolePlace, holds_text
from docgraph.auth.authenticators.sections import DbRealmAuthenticator
from docgraph.exchange import Account, Document, Write, WriteKind

__all__ = ["OwnRoles", "keep_own_roles", "may_give"]

_TAKING: Final = frozenset({"$pull", "$pullAll", "$pop", "$unset"})
_WHOLE: Final = frozenset({"$replaceRoot", "$replaceWith"})
_DETERMINED: Final = frozenset({"$set", "$setOnInsert", "$unset"})


class OwnRoles(Exception):
    """A write of several users would change the roles of the one who writes."""


def may_give(write: Write, role: str, place: RolePlace) -> bool:
    """Whether the write could leave a user with that role who does not have it."""
    if any(holds_text(part, role) for part in _parts(write, place)):
        return True
    if write.upsert and _filter_holds(write.filter, role, place):
        return True
    return _rearranges(write, place) or _computes(write, place)


def keep_own_roles(
    write: Write, account: Account, users: DbRealmAuthenticator, place: RolePlace
) -> Write:
    """The write without the caller's own user, where it would change roles; or `OwnRoles`."""
    others = {users.prop_id: {"$ne": account.name}}
    if write.kind is WriteKind.UPDATE:
        return restrict(write, others) if _touches(write, place) else write
    if write.kind is not WriteKind.REPLACE:
        return write
    if len(write.documents) > 1:
        if any(_is_own(one, account, users) and _has(one, place) for one in write.documents):
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
    for step in users.prop_id.split("."):
        name = name.get(step) if isinstance(name, Mapping) else None
    same_id = "_id" in document and document["_id"] == account.properties.get("_id")
    return same_id or bool(name == account.name)


def _has(document: Document, place: RolePlace) -> bool:
    """Whether a document has roles; to have none any more is nothing to keep anybody from."""
    if place.path.property is None:
        return True
    return any(bool(value) and place.concerns(key) for key, value in document.items())


def _touches(write: Write, place: RolePlace) -> bool:
    touched = any(place.concerns(path) for _, path, _ in _walk(write))
    return touched or _computes(write, place)


def _walk(write: Write) -> Iterator[tuple[str, str, Any]]:
    """Operator, path and operand of everything that an update does."""
    for operator, fields in (write.update or {}).items():
        if isinstance(fields, dict):
            for path, value in fields.items():
                yield operator, path, value


def _parts(write: Write, place: RolePlace) -> Iterator[Any]:
    """What documents and operators put where roles are, or below it."""
    for document in write.documents:
        yield from (value for key, value in document.items() if place.concerns(key))
    for operator, path, value in _walk(write):
        if operator not in _TAKING and place.concerns(path):
            yield value


def _rearranges(write: Write, place: RolePlace) -> bool:
    """Whether something that is stored already could become a role by what changes around it.

    `$.grants[?@.on].role` or `$.roles[0]` are such paths: `{"$set": {"grants.0.on": true}}` and
    `{"$pop": {"roles": -1}}` give a role without naming it. Only what is written whole is certain.
    """
    if place.path.is_monotone:
        return False
    return any(
        place.concerns(path) and not (operator in _DETERMINED and path == place.path.property)
        for operator, path, _ in _walk(write)
    )


def _computes(write: Write, place: RolePlace) -> bool:
    """Whether roles come from somewhere that nobody has looked at."""
    targets = [value for operator, _, value in _walk(write) if operator == "$rename"]
    if any(isinstance(target, str) and place.concerns(target) for target in targets):
        return True
    return any(_stage_computes(stage, place) for stage in write.pipeline or ())


def _stage_computes(stage: Mapping[str, Any], place: RolePlace) -> bool:
    """A stage computes what it stores, so that any touch of the roles could give any role."""
    for name, body in stage.items():
        if name in _WHOLE:
            return True
        if name == "$unset":
            return not place.path.is_monotone and _unsets_part(body, place)
        if isinstance(body, dict):
            return any(place.concerns(key) for key in body)
    return False


def _unsets_part(body: Any, place: RolePlace) -> bool:
    paths = body if isinstance(body, list | tuple) else [body]
    return any(
        place.concerns(path) and path != place.path.property
        for path in paths
        if isinstance(path, str)
    )


def _filter_holds(filter: Any, role: str, place: RolePlace) -> bool:
    """An upsert stores the equalities of its filter, also those inside `$and` and `$or`."""
    if isinstance(filter, list | tuple):
        return any(_filter_holds(part, role, place) for part in filter)
    if not isinstance(filter, Mapping):
        return False
    return any(
        _filter_holds(value, role, place)
        if key[:1] == "$"
        else place.concerns(key) and holds_text(value, role)
        for key, value in filter.items()
    )
