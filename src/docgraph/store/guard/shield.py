"""Row-level security (multi-tenancy) and field-level security: row filters, hidden properties.

After a property is hidden (`Guard.hide`), no read returns it, filters or sorts by it or renames it,
for any caller. Only the holder of the key that `hide` returned can see it. Row filters come with
each call, from the permission that admitted the caller, and are added wherever the collection is
read. `rewrite.py` does both for pipelines.

A filter is rejected if it could reveal something about a hidden property, even without returning
it: the number of matches, or their order, answers a question just as well.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from docgraph.exchange.data import ESCAPING, Document, Filter, Read
from docgraph.exchange.errors import SecurityViolation
from docgraph.exchange.request import Account
from docgraph.store.guard.fence import FilterParts, split
from docgraph.store.guard.shown import HARMLESS, LOGICAL, OPAQUE, Paths, hide
from docgraph.store.guard.stage_checks import Policy, check_filter, has_key
from docgraph.store.names import check_namespace, namespace_of, walk

Rows = Mapping[str, Mapping[str, Any]]

_NO_LISTS = Policy()
_META = frozenset({"$meta"})
_STORAGE = ("indexKey", "recordId")
_PROJECTION_OPERATORS = frozenset({"$slice", "$elemMatch", "$meta"})


@dataclass(frozen=True, eq=False, slots=True)
class RevealKey:
    """The right to see one hidden property; the code that hides it decides who gets the key."""

    namespace: str
    path: str


@dataclass(frozen=True, slots=True)
class Shield:
    """The restrictions of one call: hidden paths and row filters, by namespace."""

    hidden: Mapping[str, Paths] = field(default_factory=dict)
    rows: Rows = field(default_factory=dict)
    databases: frozenset[str] = field(init=False)  # that have a restricted collection

    def __post_init__(self) -> None:
        names = {name.partition(".")[0] for name in (*self.hidden, *self.rows)}
        object.__setattr__(self, "databases", frozenset(names))

    def restrict(self, namespace: str, filter: Filter, *, by_bytes: bool = False) -> FilterParts:
        """Return the filter with the row filter of the namespace added; see `fence.split`."""
        row = self.rows.get(namespace)
        if not row:
            return FilterParts(filter)
        front, behind = split(filter, by_bytes=by_bytes)
        return FilterParts({"$and": [row, front]} if front else row, behind)


class Guard:
    """The hidden properties of this process."""

    def __init__(self) -> None:
        self._everyday = Shield()  # without row filters and keys, created once for most calls
        self._keys: set[RevealKey] = set()
        self._lasting: set[str] = set()
        self._root_role: str | None = None

    def trust(self, role: str | None) -> None:
        """Let users with this role name hidden properties; by default, no one may."""
        self._root_role = role

    def is_trusted(self, account: Account | None) -> bool:
        """Check if the caller has the role that is above all rules."""
        return account is not None and self._root_role in account.roles

    def unnamed(self, db: str, collection: str, account: Account | None) -> Paths:
        """Return the paths that this caller cannot name in an index or a definition."""
        if self.is_trusted(account):
            return ()
        return self._everyday.hidden.get(namespace_of(db, collection), ())

    def hide(self, db: str, collection: str, path: str, *, remade: bool = False) -> RevealKey:
        """Hide a property, or a nested one (`profile.secret`), of a collection.

        `remade`: every write of a whole document creates it again, regardless of what was read
        before.
        """
        namespace = check_namespace(db, collection)
        segments = tuple(path.split("."))
        if not all(segments) or any(part[:1] == "$" or part.isdigit() for part in segments):
            raise ValueError(f"{path!r} is not the path of a property")
        hidden = self._everyday.hidden.get(namespace, ())
        if segments not in hidden:
            # Replaced as a whole: shields of running calls do not change.
            self._everyday = Shield({**self._everyday.hidden, namespace: (*hidden, segments)})
        if not remade:
            self._lasting.add(namespace)
        key = RevealKey(namespace, path)
        self._keys.add(key)
        return key

    def loses(self, db: str, collection: str) -> bool:
        """Check if documents that are read and written back would lose something hidden."""
        return namespace_of(db, collection) in self._lasting

    def shield(
        self, rows: Rows | None = None, reveal: Iterable[RevealKey] = (), policy: Policy = _NO_LISTS
    ) -> Shield:
        """Return the restrictions of a call; row filters are checked like any other filter."""
        for row in (rows or {}).values():
            check_filter(row, policy=policy, trusted=True, origin="row filter")
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


def reject(what: str) -> SecurityViolation:
    """Return the error for any use of a hidden property; it names neither property nor reason."""
    return SecurityViolation(f"{what} uses a property or an operator that is not available here")


def check_path(path: Any, hidden: Paths, what: str) -> None:
    """Reject a path that is hidden, is below a hidden one, or contains one."""
    if not isinstance(path, str) or reaches(path, hidden):
        raise reject(what)


def reaches(path: str, hidden: Paths) -> bool:
    """Check if the path is hidden, is below a hidden one, or contains one."""
    segments = _split(path)
    return any(
        all(ours == theirs for ours, theirs in zip(segments, secret, strict=False))
        for secret in hidden
    )


def _split(path: str) -> tuple[str, ...]:
    """Split a path; array positions (`a.0.b`, `a.$.b`) address the same property without them."""
    return tuple(part for part in path.split(".") if not part.isdigit() and part[:1] != "$")


def check_query(
    filter: Any,
    projection: Mapping[str, Any] | None,
    sort: Mapping[str, Any],
    hint: Any,
    hidden: Paths,
) -> None:
    """Reject a `find` that could reveal something about a hidden property."""
    check_filter_paths(filter, hidden)
    check_projection(projection or {}, hidden)
    check_order(sort, hint, hidden)


def check_filter_paths(filter: Any, hidden: Paths, what: str = "the filter") -> None:
    """Reject a filter that could reveal something about a hidden property.

    Operators below a path (`$elemMatch` and the like) need no check: a path that is neither hidden
    nor contains something hidden has nothing hidden below it.
    """
    if has_key(filter, OPAQUE):
        raise reject(what)
    _check_branches(filter, hidden, what)


def _check_branches(filter: Any, hidden: Paths, what: str) -> None:
    if not isinstance(filter, Mapping):
        raise reject(what)
    for key, condition in filter.items():
        if key in LOGICAL and isinstance(condition, (list, tuple)):
            for branch in condition:
                _check_branches(branch, hidden, what)
        elif key not in HARMLESS:
            if any(key == ".".join(secret) for secret in hidden):
                # The error names it, because the caller wrote that name.
                raise SecurityViolation(f"Using filters on the {key} property is forbidden")
            check_path(key, hidden, what)


def check_projection(projection: Mapping[str, Any], hidden: Paths) -> None:
    """Reject a projection that names a hidden property or computes something.

    A property that contains a hidden one may be named: `strip` removes the hidden one.
    """
    for path, value in projection.items():
        if isinstance(value, Mapping):
            if not value.keys() <= _PROJECTION_OPERATORS or "indexKey" in value.values():
                raise reject("the projection")
            check_path(path, hidden, "the projection")
            continue
        is_flag = isinstance(value, (bool, int, float))
        if not is_flag or (value and any(_split(path)[: len(name)] == name for name in hidden)):
            raise reject("the projection")


def shows_storage(value: Any) -> bool:
    """Check if `$meta` returns the entry of an index, or the number of a document.

    The first contains everything in the index; the second depends on the number of documents
    before.
    """
    if not has_key(value, _META):  # as nearly always
        return False
    parts = walk(value)
    return any(isinstance(part, Mapping) and part.get("$meta") in _STORAGE for part in parts)


def check_order(sort: Mapping[str, Any], hint: Any, hidden: Paths) -> None:
    """Reject a sort by a hidden property, including that of an index.

    The name of an index does not reveal its content, so only the index of `_id` may be named.
    """
    for path in sort:
        check_path(path, hidden, "the sort")
    if isinstance(hint, Mapping):
        for path in hint:
            if path != "$natural":
                check_path(path, hidden, "the hint")
    elif hint is not None and hint != "_id_":
        raise reject("the hint")


def strip(documents: list[Document], hidden: Paths) -> list[Document]:
    """Return the same list, with documents without their hidden properties."""
    documents[:] = hide(documents, hidden)
    return documents


def strip_before(
    take: Callable[[list[Document]], Awaitable[None]], hidden: Paths
) -> Callable[[list[Document]], Awaitable[None]]:
    """Return a `take` that receives documents without their hidden properties."""

    async def pass_stripped(documents: list[Document]) -> None:
        strip(documents, hidden)
        await take(documents)

    return pass_stripped


def find_named(value: Any, hidden: Paths) -> str | None:
    """Return the hidden path that a pipeline names, in an expression, a key or a string.

    The path can be below another one (`$$ROOT.password`, `fullDocument.password`).

    A pipeline that only names a hidden property does not show it. But whether it works, and its
    result, answer questions about the property. For indexes see `check_index`.
    """
    for text in walk(value, keys=True):
        if not isinstance(text, str):
            continue
        steps = tuple(step for step in text.lstrip("$").split(".") if not step.isdigit())
        for path in hidden:
            length = len(path)
            if any(steps[at : at + length] == path for at in range(len(steps) - length + 1)):
                return ".".join(path)
    return None


def find_property(schema: Any, hidden: Paths) -> str | None:
    """Return the hidden path that a JSON schema names: it nests properties by their own names."""
    last = {path[-1]: ".".join(path) for path in hidden}
    texts = (text for text in walk(schema, keys=True) if isinstance(text, str))
    return next((last[text] for text in texts if text in last), None)


def hide_marker(guard: Guard, db: str, collection: str) -> RevealKey:
    """Hide the marker in a collection; the key is for code that must interpret the documents.

    Documents that are stored escaped have it. In known collections it is hidden like other internal
    properties. Schema stores exist in every database: there, reads are checked before they run.
    """
    return guard.hide(db, collection, ESCAPING, remade=True)


def reject_marker(read: Read) -> None:
    """Raise `SecurityViolation` for a read that filters, sorts or computes by the marker."""
    reject_marker_in_filter(read.filter)
    if any(_is_marker(path) for path, _ in read.sort) or _mentions(read.hint):
        raise reject("the sort")
    # Its own entry in a projection is harmless: it is removed from the result.
    if _mentions(list((read.projection or {}).values())):
        raise reject("the projection")


def reject_marker_in_filter(filter: Filter) -> None:
    """Raise `SecurityViolation` for a filter that uses the marker."""
    if _mentions(filter):
        raise reject("the filter")


def _mentions(value: Any) -> bool:
    if isinstance(value, Mapping):
        return any(_is_marker(key) or _mentions(inner) for key, inner in value.items())
    if isinstance(value, list | tuple):
        return any(map(_mentions, value))
    # `$_escaping`, and `$$ROOT._escaping` under any name of the root.
    return isinstance(value, str) and value[:1] == "$" and ESCAPING in value[1:].split(".")[:2]


def _is_marker(path: str) -> bool:
    return path.split(".", 1)[0] == ESCAPING
