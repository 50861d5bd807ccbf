"""Enforce a permission on reads and writes: `writeFilter`, `mergeRequest`, `projectResponse`.

They are enforced at the store, so that no handler can omit them. Row filters of reads are not here:
they are passed to every store call as `rows`. Without a permission (the command line, the root
role, approval by code) nothing is enforced; collections other than the request's own are not
affected.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar, Final

from docgraph.access.authorize import report_denial
from docgraph.exchange import Document, Exchange, Permission, Read, Resource, Write, WriteKind
from docgraph.exchange.data import SORT_KEY, TrustedDocument
from docgraph.exchange.errors import DocgraphError, Forbidden, SecurityViolation, Unauthenticated
from docgraph.plugins.kinds import DataInterceptor
from docgraph.store.guard.fence import check_found
from docgraph.store.guard.shown import (
    Shown,
    asks_for_hidden,
    is_hidden_whole,
    is_partly_shown,
    is_shown,
    project,
)
from docgraph.store.guard.write_effects import list_operations
from docgraph.store.names import namespace_of

_FIRST = -1000  # before other interceptors add their own conditions to the caller's


class _Enforcing(DataInterceptor):
    security: ClassVar[bool] = True

    def resolve(self, resource: Resource) -> bool:
        return resource.db is not None and resource.collection is not None

    def find_permission(self, exchange: Exchange | None, resource: Resource) -> Permission | None:
        permission = exchange.permission if exchange is not None else None
        if permission is None or resource.db is None or resource.collection is None:
            return None
        is_own = namespace_of(resource.db, resource.collection) == permission.namespace
        return permission if is_own else None


class HiddenReads(_Enforcing):
    """Rejects reads and counts that use properties which `projectResponse` hides."""

    name: ClassVar[str] = "permissionHiddenReads"
    description: ClassVar[str] = "refuses reads that use what mongo.projectResponse hides"
    priority: ClassVar[int] = _FIRST

    async def before_read(self, exchange: Exchange | None, resource: Resource, read: Read) -> Read:
        """Return the read unchanged, or raise 401 (not authenticated) or 403."""
        permission = self.find_permission(exchange, resource)
        if exchange is None or permission is None or not permission.project_response:
            return read
        if reads_hidden(read, permission.project_response):
            raise _deny(self.name, exchange)
        return read


class HiddenWrites(_Enforcing):
    """Rejects writes that select documents by hidden properties, or would show them."""

    name: ClassVar[str] = "permissionHiddenWrites"
    description: ClassVar[str] = "refuses writes that use what mongo.projectResponse hides"
    priority: ClassVar[int] = _FIRST

    async def before_write(
        self, exchange: Exchange | None, resource: Resource, write: Write
    ) -> Write:
        """Return the write unchanged, or raise 401 (not authenticated) or 403."""
        permission = self.find_permission(exchange, resource)
        if exchange is None or permission is None or not permission.project_response:
            return write
        if writes_by_hidden(write, permission.project_response):
            raise _deny(self.name, exchange)
        check_copies(write, permission.project_response)
        return write


def _deny(interceptor: str, exchange: Exchange) -> DocgraphError:
    """Build the rejection of a request that no rule permits."""
    reason = "the request uses properties that the rule hides"
    report_denial(exchange, interceptor, reason)
    return Unauthenticated(reason) if exchange.account is None else Forbidden(reason)


class WriteFilter(_Enforcing):
    """Limits writes to documents that `writeFilter` matches; creating documents stays possible."""

    name: ClassVar[str] = "permissionWriteFilter"
    description: ClassVar[str] = "applies mongo.writeFilter of permissions"
    priority: ClassVar[int] = 1

    async def before_write(
        self, exchange: Exchange | None, resource: Resource, write: Write
    ) -> Write:
        permission = self.find_permission(exchange, resource)
        if permission is None:
            return write
        if permission.write_filter or permission.read_filters.get(permission.namespace or ""):
            check_found(write.filter)
        return restrict(write, permission.write_filter)


def restrict(write: Write, filter: Mapping[str, Any] | None) -> Write:
    """Return the write with a further condition on the documents that it selects."""
    if write.kind is WriteKind.INSERT or not filter:
        return write
    selected = write.filter
    if not selected and write.kind is WriteKind.REPLACE and len(write.documents) == 1:
        selected = {"_id": write.documents[0].get("_id")}
    filter = TrustedDocument(filter)
    return replace(write, filter={"$and": [selected, filter]} if selected else filter)


class RequestMerger(_Enforcing):
    """Writes the values of `mergeRequest` over those of the caller."""

    name: ClassVar[str] = "permissionRequestMerger"
    description: ClassVar[str] = "applies mongo.mergeRequest of permissions"
    priority: ClassVar[int] = 2

    async def before_write(
        self, exchange: Exchange | None, resource: Resource, write: Write
    ) -> Write:
        permission = self.find_permission(exchange, resource)
        if permission is None or not permission.merge_request:
            return write
        return merge_into(write, permission.merge_request)


class ResponseProjector(_Enforcing):
    """Removes properties that `projectResponse` hides from documents (redaction)."""

    name: ClassVar[str] = "permissionResponseProjector"
    description: ClassVar[str] = "applies mongo.projectResponse of permissions"
    takes_portions: ClassVar[bool] = True
    priority: ClassVar[int] = 900

    def changes_read(self, exchange: Exchange | None, resource: Resource) -> bool:
        permission = self.find_permission(exchange, resource)
        return permission is not None and bool(permission.project_response)

    async def after_read(
        self, exchange: Exchange | None, resource: Resource, documents: list[Document]
    ) -> list[Document]:
        permission = self.find_permission(exchange, resource)
        if permission is None or not permission.project_response:
            return documents
        shown = project(documents, permission.project_response)
        for before, after in zip(documents, shown, strict=True):
            if SORT_KEY in before:  # of a sort that uses nothing hidden (`HiddenReads`)
                after[SORT_KEY] = before[SORT_KEY]
        return shown


_UNORDERED: Final = frozenset({"_id", "$natural"})  # the default order of a list
# Their effect does not depend on stored values.
_BLIND: Final = frozenset({"$set", "$setOnInsert", "$unset", "$currentDate"})
# An operand that takes a number out of its range makes the update fail, which reveals the number by
# repeated attempts. Small steps never reach the limit.
_CALCULATING: Final = frozenset({"$inc", "$mul", "$bit"})
_MAX_ADDED: Final = 1 << 31


def reads_hidden(read: Read, shown: Shown) -> bool:
    """Return whether filter, sort, hint or projection of a read use a hidden property.

    The checks of `projectResponse` inspect the reads and writes that the store is about to execute,
    never the text of a request: a second parser of its parameters would differ from the first some
    day. A doubtful case counts as using something hidden.
    """
    projection = read.projection or {}
    return (
        asks_for_hidden(read.filter, shown)
        or _orders_by_hidden(read, shown)
        or _hints_at_hidden(read.hint)
        or any(_computes(path, value, shown) for path, value in projection.items())
    )


def writes_by_hidden(write: Write, shown: Shown) -> bool:
    """Return whether a write selects its documents by a hidden property."""
    return asks_for_hidden(write.filter, shown)


def check_copies(write: Write, shown: Shown) -> None:
    """Reject a write that could reveal something hidden: by a copy, or by its effect."""
    if write.pipeline is not None:
        raise _reject()
    for update, reveals in ((write.update, _reveals), (write.applied, _reveals_by_check)):
        if update is not None and any(
            reveals(*operation, shown) for operation in list_operations(update)
        ):
            raise _reject()


def _reject() -> SecurityViolation:
    return SecurityViolation("the update uses properties that are not available here")


def _reveals(operator: str, path: str, operand: Any, shown: Shown) -> bool:
    """Return whether the visible result of the operator depends on hidden values.

    `$rename` moves them, and `$inc` overflows or does not. `$pull`, `$push` with `$sort`, `$max`
    and others compare whole elements that are hidden in part; where all is hidden, so is their
    result.
    """
    is_small = operator == "$inc" and isinstance(operand, int) and abs(operand) < _MAX_ADDED
    if operator == "$rename" or (operator in _CALCULATING and not is_small):
        return not is_shown(path, shown)
    return operator not in _BLIND and is_partly_shown(path, shown)


def _reveals_by_check(operator: str, path: str, operand: Any, shown: Shown) -> bool:
    """Return whether the operator reveals hidden values by validation of the whole document.

    Whether a number is within its bounds, or an element exists twice, reveals the stored value. An
    operator that replaces or removes a hidden value as a whole depends on nothing.
    """
    if operator not in _BLIND:
        return not is_shown(path, shown)
    steps = path.split(".")
    around = (".".join(steps[:length]) for length in range(1, len(steps)))
    return any(is_hidden_whole(above, shown) for above in around)


def _orders_by_hidden(read: Read, shown: Shown) -> bool:
    reveals_keys = read.keyset is not None or any(
        isinstance(value, Mapping) and "$meta" in value
        for value in (read.projection or {}).values()
    )
    return any(
        isinstance(direction, Mapping)  # by a score: of an index that may contain everything
        or not (is_shown(path, shown) or (path in _UNORDERED and not reveals_keys))
        for path, direction in read.sort
    )


def _hints_at_hidden(hint: Any) -> bool:
    """Return whether the hint could reveal hidden values.

    An index orders the documents, and omits those that its own condition does not match. Neither
    its name nor its keys show the fields of that condition (`partialFilterExpression`).
    """
    if isinstance(hint, Mapping):
        return not all(path in _UNORDERED for path in hint)
    return hint is not None and hint != "_id_"


def _computes(path: str, value: Any, shown: Shown) -> bool:
    """Return whether a projection does more than include, exclude or slice."""
    if not isinstance(value, Mapping):
        return not isinstance(value, bool | int | float)
    match dict(value):
        case {"$slice": operand, **rest} if not rest:
            numbers = operand if isinstance(operand, list) else [operand]
            return not all(isinstance(number, int | float) for number in numbers)
        case {"$elemMatch": _, **rest} if not rest:
            return not is_shown(path, shown)
        case {"$meta": "sortKey", **rest} if not rest:
            return False  # of a sort that uses nothing hidden
    return True


MergedValues = Mapping[str, Any]
UpdateChange = tuple[str, str, Any]  # operator, path, operand


def merge_into(write: Write, values: MergedValues) -> Write:
    """Return the write with these values in every document, or in `$set`.

    The values of `mergeRequest` override those of the caller wherever these are: at the same path,
    below it, or in an object around it, whose other properties stay.
    """
    if write.kind is WriteKind.DELETE:
        return write
    if write.pipeline is not None:
        stages = ({"$set": _merge_stage(path.split("."), value)} for path, value in values.items())
        return replace(write, pipeline=(*write.pipeline, *stages))
    if write.update is not None:
        return replace(write, update=_merge_update(write.update, values))
    return replace(write, documents=tuple(_merge(document, values) for document in write.documents))


def _merge_stage(steps: Sequence[str], value: Any, around: str = "") -> Document:
    """Build the value for `$set` in a stage; non-objects on the path are replaced by objects.

    A plain path would apply to the elements of arrays, and set nothing in an empty one.
    """
    first, *rest = steps
    if not rest:
        return {first: {"$literal": value}}
    path = f"{around}.{first}" if around else f"${first}"
    is_object = {"$eq": [{"$type": path}, "object"]}
    kept = {"$cond": [is_object, path, {}]}
    return {first: {"$mergeObjects": [kept, _merge_stage(rest, value, path)]}}


def _merge(document: Document, values: MergedValues) -> Document:
    merged = dict(document)
    for path, value in values.items():
        for key in [key for key in merged if key != path and _is_inside(key, [path])]:
            del merged[key]
        holder = merged
        *steps, last = path.split(".")
        for step in steps:
            inner = holder.get(step)
            holder[step] = holder = dict(inner) if isinstance(inner, dict) else {}
        holder[last] = value
    return merged


def _is_inside(path: str, places: Iterable[str]) -> bool:
    return any(path == place or path.startswith(f"{place}.") for place in places)


def _merge_update(update: Document, values: MergedValues) -> Document:
    """Return the operators with the values in `$set`, except those in an object of the caller.

    The database rejects two changes of one path, or of a path and one below it, in one update.
    """
    merged = {key: fields for key, fields in update.items() if not isinstance(fields, Mapping)}
    changes = [
        change for operation in list_operations(update) for change in _give_way(operation, values)
    ]
    held = {path for operator, path, _ in changes if operator == "$set"}
    changes += [("$set", *pair) for pair in values.items() if not _is_inside(pair[0], held)]
    for operator, path, operand in changes:
        merged.setdefault(operator, {})[path] = operand
    return merged


def _give_way(change: UpdateChange, values: MergedValues) -> Iterator[UpdateChange]:
    """Yield the parts of the caller's change that remain next to the values.

    Changes at the same path or below it are dropped; an object around it receives the value.
    """
    operator, path, operand = change
    if _is_inside(path, values):
        return
    below = {
        place.removeprefix(f"{path}."): value
        for place, value in values.items()
        if place.startswith(f"{path}.")
    }
    match operator:
        case "$rename" if not below and _is_inside(str(operand), values):
            yield "$unset", path, ""  # it would be moved to the path of a value
        case _ if not below:
            yield change
        case "$set":
            yield "$set", path, _merge(operand if isinstance(operand, dict) else {}, below)
        case "$unset":
            yield "$set", path, _merge({}, below)
        case "$setOnInsert" if isinstance(operand, dict):
            # Only its parts: the stored object keeps its other properties.
            for key, value in operand.items():
                yield from _give_way((operator, f"{path}.{key}", value), values)
