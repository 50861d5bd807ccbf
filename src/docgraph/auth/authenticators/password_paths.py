"""Find the passwords that a write sets, and replace them with their stored form. Pure.

A password can be set by a document (insert, replace) or by `$set` and `$setOnInsert`, and removed
by `$unset` or null. Every other operation on it is rejected: its result could not be hashed, or
would reveal something about the stored value. HA1 values, if they are stored, are derived from the
password and never written by a caller.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from docgraph.auth.authenticators.db_users import find_value
from docgraph.auth.passwords import Hashed
from docgraph.exchange import Document, Resource, Write, WriteKind
from docgraph.exchange.errors import RequestError
from docgraph.store.guard.write_effects import ChangeOrigin, WrittenChange, effects_of

_SETTERS: Final = ("$set", "$setOnInsert")
_PLAIN: Final = (*_SETTERS, "$unset")


@dataclass(frozen=True, slots=True)
class Properties:
    """The names of the properties of a user."""

    id: str
    password: str
    ha1: str | None = None

    @property
    def secret(self) -> frozenset[str]:
        """The properties that only docgraph itself writes and reads."""
        return frozenset(name for name in (self.password, self.ha1) if name is not None)

    def is_secret(self, path: Any) -> bool:
        """Return whether a path leads to a secret or below one."""
        return isinstance(path, str) and path.split(".", 1)[0] in self.secret


@dataclass(frozen=True, slots=True)
class NewPassword:
    """A password that a write sets, by its `index`-th document or by an operator.

    None removes the password. `user` is the name if the write contains it.
    """

    text: str | None = field(repr=False)
    user: str | None = None
    index: int = 0
    operator: str | None = None


def find_passwords(write: Write, resource: Resource, names: Properties) -> list[NewPassword]:
    """Return every password that the write sets; raises `RequestError` for other operations."""
    addressed = _find_addressed(write, resource, names) if len(write.documents) <= 1 else None
    passwords: list[NewPassword] = []
    for index, changes in enumerate(effects_of(write).parts):
        document = write.documents[index] if index < len(write.documents) else {}
        for change in changes:
            if _sets_password(change, document, names):
                user = find_value(document, names.id)
                user = user if isinstance(user, str) else addressed
                text = _check_text(change.operand)
                passwords.append(NewPassword(text, user, index, change.operator or None))
    return passwords


def put_passwords(
    write: Write, passwords: Sequence[NewPassword], stored: Sequence[Document], names: Properties
) -> Write:
    """Return the write with these properties in place of the passwords."""
    if write.update is not None:
        return replace(write, update=_put_in_operators(write.update, passwords, stored, names))
    documents = list(write.documents)
    for password, properties in zip(passwords, stored, strict=True):
        documents[password.index] = {**documents[password.index], **properties}
    return replace(write, documents=tuple(documents))


def ends_sessions(write: Write, names: Properties) -> bool:
    """Return whether the write must revoke tokens of the affected users (decision 32).

    Dropping the collection affects all users: it revokes every token.
    """
    if write.kind in (WriteKind.INSERT, WriteKind.CREATE, WriteKind.DROP):
        return False
    if write.kind is WriteKind.UPDATE and write.pipeline is None:
        paths = [change.path for changes in effects_of(write).parts for change in changes]
        return any(
            path is None or names.is_secret(path) or _overlaps(path, names.id) for path in paths
        )
    return True


def affected_users(write: Write) -> Mapping[str, Any]:
    """Return a filter that finds the users whom the write affects, perhaps more."""
    if write.filter or write.kind is not WriteKind.REPLACE:
        return write.filter
    return {"_id": {"$in": [document.get("_id") for document in write.documents]}}


def _sets_password(change: WrittenChange, document: Document, names: Properties) -> bool:
    """Return whether the change sets the password as a text; raises `RequestError` otherwise.

    Only the database knows the result of a pipeline stage.
    """
    operator, path = change.operator, change.path
    if change.origin is ChangeOrigin.DOCUMENT:
        if path is not None and path == names.ha1:
            _check_derived(change.operand, document.get(names.password))
        return path == names.password and not isinstance(change.operand, Hashed)
    if path is not None and not names.is_secret(path):
        return False
    if change.origin is ChangeOrigin.STAGE:
        is_kept = operator == "$project" and isinstance(change.operand, bool | int | float)
        is_harmless = path is not None and (operator == "$unset" or is_kept)
    else:
        is_harmless = path == names.password and operator in _PLAIN
    if not is_harmless:
        raise _refusal(operator)
    return operator in _SETTERS


def _check_derived(ha1: Any, password: Any) -> None:
    """Reject HA1 without a hash that docgraph itself has produced."""
    if ha1 is not None and not isinstance(password, Hashed):
        raise _refusal("a document")


def _put_in_operators(
    update: Document,
    passwords: Sequence[NewPassword],
    stored: Sequence[Document],
    names: Properties,
) -> Document:
    update = dict(update)
    for password, properties in zip(passwords, stored, strict=True):
        if password.operator is not None:
            update[password.operator] = {**update[password.operator], **properties}
    taken_away = update.get("$unset")
    if names.ha1 and isinstance(taken_away, Mapping) and names.password in taken_away:
        update["$unset"] = {**taken_away, names.ha1: ""}
    return update


def _find_addressed(write: Write, resource: Resource, names: Properties) -> str | None:
    """Return the one user whom a write addresses by name."""
    candidates = [write.filter.get(names.id)]
    if names.id == "_id":
        candidates.append(resource.id)
    return next((candidate for candidate in candidates if isinstance(candidate, str)), None)


def _overlaps(path: str, other: str) -> bool:
    """Return whether writing to one path changes the value at the other."""
    return f"{path}.".startswith(f"{other}.") or f"{other}.".startswith(f"{path}.")


def _check_text(value: Any) -> str | None:
    if value is None or isinstance(value, str):
        return value
    raise RequestError("the password must be text", hint="null makes a user who cannot log in")


def _refusal(what: str) -> RequestError:
    return RequestError(
        f"{what} cannot write the password in this way",
        hint="set it as a plain property of the document or with $set",
    )
