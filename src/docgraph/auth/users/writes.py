"""Where a write puts a password, and the same write with what is stored in its place. Pure.

A password can be set by a document (insert, replace) or by `$set` and `$setOnInsert`, and taken
away by `$unset` or null. Every other way of touching it is refused: its outcome could not be
hashed, or would tell something about what is stored. HA1 values, where they are kept, are derived
from the password and never written by a caller.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from docgraph.auth.authenticators.record import find_value
from docgraph.auth.passwords import Hashed
from docgraph.exchange import Document, Resource, Write, WriteKind
from docgraph.exchange.errors import RequestError

__all__ = [
    "NewPassword",
    "Properties",
    "affected_users",
    "ends_sessions",
    "find_passwords",
    "put_passwords",
]

_SETTERS: Final = ("$set", "$setOnInsert")
_NESTED_STAGES: Final = ("$set", "$addFields", "$project")


@dataclass(frozen=True, slots=True)
class Properties:
    """The names of the properties of a user."""

    id: str
    password: str
    ha1: str | None = None

    @property
    def secret(self) -> frozenset[str]:
        """Those that only docgraph itself writes and reads."""
        return frozenset({self.password, self.ha1} - {None})  # type: ignore[arg-type]

    def is_secret(self, path: Any) -> bool:
        """Whether a path leads to a secret or below one."""
        return isinstance(path, str) and path.split(".", 1)[0] in self.secret


@dataclass(frozen=True, slots=True)
class NewPassword:
    """A password that a write sets, by its `index`-th document or by an operator; None: no more.

    `user` is the name where the write tells it.
    """

    text: str | None = field(repr=False)
    user: str | None = None
    index: int = 0
    operator: str | None = None


def find_passwords(write: Write, resource: Resource, names: Properties) -> list[NewPassword]:
    """Every password that the write sets; raises `RequestError` for what cannot be allowed."""
    if write.pipeline is not None:
        for stage in write.pipeline:
            _check_stage(stage, names)
    if write.kind in (WriteKind.INSERT, WriteKind.REPLACE):
        addressed = _find_addressed(write, resource, names) if len(write.documents) == 1 else None
        return list(_find_in_documents(write.documents, names, addressed))
    if write.update is not None:
        addressed = _find_addressed(write, resource, names)
        return list(_find_in_operators(write.update, names, addressed))
    return []


def put_passwords(
    write: Write, found: Sequence[NewPassword], stored: Sequence[Document], names: Properties
) -> Write:
    """The write with these properties at the places where the passwords were."""
    if write.update is not None:
        return replace(write, update=_put_in_operators(write.update, found, stored, names))
    documents = list(write.documents)
    for one, properties in zip(found, stored, strict=True):
        documents[one.index] = {**documents[one.index], **properties}
    return replace(write, documents=tuple(documents))


def ends_sessions(write: Write, names: Properties) -> bool:
    """Whether tokens of the users it concerns must end with the write (decision 32).

    A dropped collection is not about some of them: with it ends every token.
    """
    if write.kind in (WriteKind.INSERT, WriteKind.CREATE, WriteKind.DROP):
        return False
    if write.kind is WriteKind.UPDATE and write.pipeline is None:
        paths = [path for _, path, _ in _walk(write.update or {})]
        return any(names.is_secret(path) or _overlaps(path, names.id) for path in paths)
    return True


def affected_users(write: Write) -> Mapping[str, Any]:
    """A filter that finds the users whom the write concerns, and perhaps some more."""
    if write.filter or write.kind is not WriteKind.REPLACE:
        return write.filter
    return {"_id": {"$in": [document.get("_id") for document in write.documents]}}


# --- documents ------------------------------------------------------------------------------------


def _find_in_documents(
    documents: Sequence[Document], names: Properties, addressed: str | None
) -> Iterator[NewPassword]:
    for index, document in enumerate(documents):
        if names.ha1 is not None and names.ha1 in document:
            _check_derived(document[names.ha1], document.get(names.password))
        if names.password not in document or isinstance(document[names.password], Hashed):
            continue
        text = _check_text(document[names.password])
        user = find_value(document, names.id)
        yield NewPassword(text, user if isinstance(user, str) else addressed, index)


def _check_derived(ha1: Any, password: Any) -> None:
    """HA1 comes only together with a hash that docgraph itself vouches for."""
    if ha1 is not None and not isinstance(password, Hashed):
        raise _refusal("a document")


# --- operators ------------------------------------------------------------------------------------


def _find_in_operators(
    update: Document, names: Properties, user: str | None
) -> Iterator[NewPassword]:
    for operator, path, value in _walk(update):
        if operator == "$rename" and names.is_secret(value):
            raise _refusal(operator)
        if not names.is_secret(path):
            continue
        if path == names.password and operator in _SETTERS:
            yield NewPassword(_check_text(value), user, operator=operator)
        elif operator != "$unset" or path != names.password:
            raise _refusal(operator)


def _put_in_operators(
    update: Document, found: Sequence[NewPassword], stored: Sequence[Document], names: Properties
) -> Document:
    update = dict(update)
    for one, properties in zip(found, stored, strict=True):
        if one.operator is not None:
            update[one.operator] = {**update[one.operator], **properties}
    taken_away = update.get("$unset")
    if names.ha1 and isinstance(taken_away, Mapping) and names.password in taken_away:
        update["$unset"] = {**taken_away, names.ha1: ""}
    return update


def _walk(update: Mapping[str, Any]) -> Iterator[tuple[str, str, Any]]:
    """Operator, path and operand of everything that an update does."""
    for operator, fields in update.items():
        if isinstance(fields, Mapping):
            for path, operand in fields.items():
                yield operator, path, operand


def _find_addressed(write: Write, resource: Resource, names: Properties) -> str | None:
    """The one user whom a write addresses by name."""
    candidates = [write.filter.get(names.id)]
    if names.id == "_id":
        candidates.append(resource.id)
    return next((one for one in candidates if isinstance(one, str)), None)


def _overlaps(path: str, other: str) -> bool:
    """Whether writing to one path changes what stands at the other."""
    return f"{path}.".startswith(f"{other}.") or f"{other}.".startswith(f"{path}.")


# --- pipelines ------------------------------------------------------------------------------------


def _check_stage(stage: Mapping[str, Any], names: Properties) -> None:
    """Refuse stages that set the password: what they compute is known to the database only."""
    for name, body in stage.items():
        if name in ("$replaceRoot", "$replaceWith"):
            raise _refusal(name)
        if name in _NESTED_STAGES and isinstance(body, Mapping):
            for path, value in body.items():
                kept = name == "$project" and isinstance(value, bool | int | float)
                if names.is_secret(path) and not kept:
                    raise _refusal(name)


def _check_text(value: Any) -> str | None:
    if value is None or isinstance(value, str):
        return value
    raise RequestError("the password must be text", hint="null makes a user who cannot log in")


def _refusal(what: str) -> RequestError:
    return RequestError(
        f"{what} cannot write the password in this way",
        hint="set it as a plain property of the document or with $set",
    )
