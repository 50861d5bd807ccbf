"""Security that nobody can forget: hidden properties and row filters of collections.

A property is hidden once (`Guard.hide`) and from then on no read returns it, filters or sorts by
it or renames it, whoever asks and by whatever way. Only the holder of the key that `hide` gave back
can see it. Row filters come with each call, from the permission that admitted the caller, and are
added wherever the collection is read. `rewrite.py` does both for pipelines.

A filter is refused when it could tell something about a hidden property, also without returning it:
the number of matches, or their order, answers a question just as well.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from docgraph.exchange.account import Account
from docgraph.exchange.data import Document
from docgraph.exchange.errors import SecurityViolation
from docgraph.store.guard.fence import Parts, split
from docgraph.store.guard.shown import Paths, hide
from docgraph.store.guard.stages import has_key
from docgraph.store.names import check_namespace, namespace_of

__all__ = [
    "Guard",
    "Key",
    "Paths",
    "Rows",
    "Shield",
    "check_filter_paths",
    "check_order",
    "check_path",
    "check_projection",
    "check_query",
    "refuse",
    "shows_storage",
    "strip",
    "strip_before",
]

Rows = Mapping[str, Mapping[str, Any]]

_LOGICAL = frozenset({"$and", "$or", "$nor"})
_HARMLESS = frozenset({"$comment"})
# They look at whole documents, or at whatever an index holds: there is no telling which property.
# (In lower case, as `has_key` wants them.)
_OPAQUE = frozenset({"$expr", "$where", "$jsonschema", "$text"})
_STORAGE = ("indexKey", "recordId")
_PROJECTION_OPERATORS = frozenset({"$slice", "$elemMatch", "$meta"})


@dataclass(frozen=True, eq=False, slots=True)
class Key:
    """The right to see one hidden property; whoever hides it decides who gets the key."""

    namespace: str
    path: str


@dataclass(frozen=True, slots=True)
class Shield:
    """What one call has to respect: hidden paths and row filters, by namespace."""

    hidden: Mapping[str, Paths] = field(default_factory=dict)
    rows: Rows = field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self.hidden or self.rows)

    def restrict(
        self, namespace: str, filter: Mapping[str, Any], *, by_bytes: bool = False
    ) -> Parts:
        """The filter with the row filter of the namespace added; see `fence.split`."""
        row = self.rows.get(namespace)
        if not row:
            return Parts(filter)
        front, behind = split(filter, by_bytes=by_bytes)
        return Parts({"$and": [row, front]} if front else row, behind)


class Guard:
    """The hidden properties of this process."""

    def __init__(self) -> None:
        self._everyday = Shield()  # without row filters and keys, made once for most calls
        self._keys: set[Key] = set()
        self._lasting: set[str] = set()
        self._root_role: str | None = None

    def trust(self, role: str | None) -> None:
        """Whoever has this role may name what is hidden; nobody may, unless this is said."""
        self._root_role = role

    def is_trusted(self, account: Account | None) -> bool:
        """Whether the caller has the role above all rules."""
        return account is not None and self._root_role in account.roles

    def unnamed(self, db: str, collection: str, account: Account | None) -> Paths:
        """What this caller may not name in an index or a definition about the collection."""
        if self.is_trusted(account):
            return ()
        return self._everyday.hidden.get(namespace_of(db, collection), ())

    def hide(self, db: str, collection: str, path: str, *, remade: bool = False) -> Key:
        """Hide a property, or one below another (`profile.secret`), of a collection.

        `remade`: every write of a whole document brings it anew, whatever was read before.
        """
        namespace = check_namespace(db, collection)
        segments = tuple(path.split("."))
        if not all(segments) or any(part[:1] == "$" or part.isdigit() for part in segments):
            raise ValueError(f"{path!r} is not the path of a property")
        known = self._everyday.hidden.get(namespace, ())
        if segments not in known:
            # Replaced as a whole: shields of calls that are under way keep what they had.
            self._everyday = Shield({**self._everyday.hidden, namespace: (*known, segments)})
        if not remade:
            self._lasting.add(namespace)
        key = Key(namespace, path)
        self._keys.add(key)
        return key

    def loses(self, db: str, collection: str) -> bool:
        """Whether documents that are read and written back would lose something hidden."""
        return namespace_of(db, collection) in self._lasting

    def shield(self, rows: Rows | None = None, reveal: Iterable[Key] = ()) -> Shield:
        """What a call with these row filters and keys has to respect."""
        if not rows and not reveal:
            return self._everyday
        hidden = self._everyday.hidden
        for key in reveal:
            if key not in self._keys:
                raise ValueError("the key is not one of this guard")
            seen = tuple(key.path.split("."))
            kept = tuple(path for path in hidden[key.namespace] if path != seen)
            hidden = {**hidden, key.namespace: kept}
        return Shield(hidden, rows or {})


def refuse(what: str) -> SecurityViolation:
    """The error for any use of a hidden property; it does not say which one, or why."""
    return SecurityViolation(f"{what} uses a property or an operator that is not available here")


def check_path(path: Any, hidden: Paths, what: str) -> None:
    """Refuse a path that is hidden, lies below a hidden one, or contains one."""
    if not isinstance(path, str):
        raise refuse(what)
    # Positions in arrays (`a.0.b`, `a.$.b`) address the same property as the path without them.
    segments = [part for part in path.split(".") if not part.isdigit() and part[:1] != "$"]
    for secret in hidden:
        if all(ours == theirs for ours, theirs in zip(segments, secret, strict=False)):
            raise refuse(what)


def check_query(
    filter: Any,
    projection: Mapping[str, Any] | None,
    sort: Mapping[str, Any],
    hint: Any,
    hidden: Paths,
) -> None:
    """Refuse a `find` that could tell something about a hidden property by any of its parts."""
    check_filter_paths(filter, hidden)
    check_projection(projection or {}, hidden)
    check_order(sort, hint, hidden)


def check_filter_paths(filter: Any, hidden: Paths, what: str = "the filter") -> None:
    """Refuse a filter that could tell something about a hidden property.

    What stands below a path (`$elemMatch` and the like) needs no look: a path that is neither
    hidden nor contains something hidden has nothing hidden below it.
    """
    if has_key(filter, _OPAQUE):
        raise refuse(what)
    _check_branches(filter, hidden, what)


def _check_branches(filter: Any, hidden: Paths, what: str) -> None:
    if not isinstance(filter, Mapping):
        raise refuse(what)
    for key, condition in filter.items():
        if key in _LOGICAL and isinstance(condition, (list, tuple)):
            for branch in condition:
                _check_branches(branch, hidden, what)
        elif key not in _HARMLESS:
            _refuse_named(key, hidden)
            check_path(key, hidden, what)


def _refuse_named(path: Any, hidden: Paths) -> None:
    """Whoever writes the name of a hidden property may read it in the error."""
    if any(path == ".".join(secret) for secret in hidden):
        raise SecurityViolation(f"Using filters on the {path} property is forbidden")


def check_projection(projection: Mapping[str, Any], hidden: Paths) -> None:
    """Refuse a projection that names a hidden property or computes something.

    A property that holds a hidden one below it may be named: `strip` takes the hidden one out.
    """
    for path, value in projection.items():
        if isinstance(value, Mapping):
            if not value.keys() <= _PROJECTION_OPERATORS or "indexKey" in value.values():
                raise refuse("the projection")
            check_path(path, hidden, "the projection")
        elif not isinstance(value, (bool, int, float)):
            raise refuse("the projection")
        elif value:
            _check_named(path, hidden)


def _check_named(path: str, hidden: Paths) -> None:
    segments = tuple(part for part in path.split(".") if not part.isdigit() and part[:1] != "$")
    for secret in hidden:
        if segments[: len(secret)] == secret:
            raise refuse("the projection")


def shows_storage(value: Any) -> bool:
    """Whether `$meta` shows the entry of an index, or the number of a document.

    The one holds whatever the index does, the other tells how many documents came before.
    """
    if isinstance(value, Mapping):
        if value.get("$meta") in _STORAGE:
            return True
        return any(map(shows_storage, value.values()))
    return isinstance(value, (list, tuple)) and any(map(shows_storage, value))


def check_order(sort: Mapping[str, Any], hint: Any, hidden: Paths) -> None:
    """Refuse an order that follows a hidden property, also that of an index.

    The name of an index does not say what it holds, so that only the one of `_id` may be named.
    """
    for path in sort:
        check_path(path, hidden, "the sort")
    if isinstance(hint, Mapping):
        for path in hint:
            if path != "$natural":
                check_path(path, hidden, "the hint")
    elif hint is not None and hint != "_id_":
        raise refuse("the hint")


def strip(documents: list[Document], hidden: Paths) -> None:
    """Take the hidden properties out of the documents, in place."""
    documents[:] = hide(documents, hidden)


def strip_before(
    take: Callable[[list[Document]], Awaitable[None]], hidden: Paths
) -> Callable[[list[Document]], Awaitable[None]]:
    """What takes documents without their hidden properties."""

    async def take_rest(documents: list[Document]) -> None:
        strip(documents, hidden)
        await take(documents)

    return take_rest
