"""The request that predicates evaluate: the parsed value, and values that are loaded on demand.

Predicates are plain functions, so that a hundred rules cost little. A predicate that needs a value
which has to be awaited (a variable, the body) raises `NeedsValue`; the caller loads the value and
evaluates it again. Nothing is read or resolved for a predicate that is not reached.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from docgraph.codec.request_body import read_documents
from docgraph.exchange import DataRequest, Exchange, Resource, ResourceType, WriteMode
from docgraph.exchange.data import FieldPath
from docgraph.exchange.errors import RequestError
from docgraph.exchange.request import render_path
from docgraph.store.guard.write_effects import (
    StoredValues,
    WriteEffects,
    read_body,
    read_filter,
    read_stage,
)
from docgraph.variables import UNBOUND, Resolvers, Variables
from docgraph.variables.paths import get_value, parse_path

_BODY: Final = "the body"  # not the name of any variable
_UNKNOWN: Final = object()  # there may be a value, but it cannot be determined
_WITH_BODY: Final = frozenset({"POST", "PUT", "PATCH"})  # the service ignores other bodies
_FILTERED_READS: Final = frozenset(
    {ResourceType.COLLECTION, ResourceType.DOCUMENT, ResourceType.SIZE}
)
_FILTERED_WRITES: Final = frozenset({ResourceType.DOCUMENT, ResourceType.BULK})
_READS: Final = frozenset({"GET", "HEAD"})
_LENGTH: Final = "the length of the body"


class NeedsValue(Exception):
    """A predicate needs this value to continue."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.name = name


class RequestView:
    """One request; `bound` are the `${…}` of the rule that is being evaluated.

    `data` is what the REST API will execute; None for requests to other services. `segments` are
    the path that is really served. Large bodies are inspected in a thread.
    """

    __slots__ = (
        "_known",
        "_resolvers",
        "bound",
        "data",
        "exchange",
        "request",
        "resource",
        "segments",
    )

    def __init__(self, exchange: Exchange, resolvers: Resolvers) -> None:
        parsed = exchange.parsed
        self.exchange = exchange
        self.request = exchange.request
        self.data = parsed if isinstance(parsed, DataRequest) else None
        # The resource that a request to the REST API addresses.
        self.resource: Resource | None = None if self.data is None else self.data.resource
        self.segments = exchange.request.segments if self.data is None else self.data.segments
        self.bound: dict[str, Any] = {}
        self._known: dict[str, Any] = {}
        self._resolvers = resolvers

    @property
    def is_retyped(self) -> bool:
        """Whether the path as a text names another document than the one that is served.

        `/users/5?id_type=NUMBER` is not the document of the user "5".
        """
        resource = self.resource
        if resource is None or resource.type is not ResourceType.DOCUMENT:
            return False
        return self.data is not None and self.data.is_retyped

    def get(self, name: str) -> Any:
        """Return the value of `@…`; raises `NeedsValue`, `AbsentValue` or `NoValue`."""
        try:
            value = self._known[name]
        except KeyError:
            raise NeedsValue(name) from None
        if value is UNBOUND:
            raise AbsentValue(name)
        if value is _UNKNOWN:
            raise NoValue(name)
        return value

    def get_changes(self) -> WrittenChanges:
        """Return what the request writes; raises `NeedsValue` or `NoValue`."""
        changes: WrittenChanges = self.get(_BODY)
        return changes

    def get_length(self) -> int:
        """Return the length of the body that its service sees; raises `NeedsValue` or `NoValue`."""
        if self.request.is_coded:
            inflated: int = self.get(_LENGTH)
            return inflated
        announced = self.request.headers.get("content-length")
        if announced is None or not announced.isdigit():
            raise NoValue("the length is not announced")
        return int(announced)

    def bind(self, parts: Mapping[str, str]) -> None:
        """Store parts of the path or of other texts, for `${…}` further to the right.

        The last segment of a document's path is the id that the service looks up, with its type.
        """
        for name, text in parts.items():
            self.bound[name] = self.find_id() if self._is_id(text) else Text(text)

    def get_bound(self, name: str) -> Any:
        value = self.bound.get(name)
        if value is None:
            raise AbsentValue(name)
        if value is _UNKNOWN:
            raise NoValue(name)
        return value

    async def supply(self, name: str) -> None:
        """Load a value; null counts as absent, and an unreadable value is unknown."""
        try:
            value = await self._find(name)
        except (RequestError, NoValue):
            value = _UNKNOWN
        self._known[name] = UNBOUND if value is None else value

    async def supply_all(self, names: frozenset[str]) -> Variables:
        """Return the values of variables, loaded if necessary, for rendering a template."""
        for name in sorted(names):
            if name not in self._known:
                await self.supply(name)
        values = {name: self._known[name] for name in names}
        return Variables(
            {name: UNBOUND if value is _UNKNOWN else value for name, value in values.items()}
        )

    async def _find(self, name: str) -> Any:
        if name == _BODY:
            return await self._read_changes()
        if name == _LENGTH:
            return len(await self.request.read_body())
        if self.data is not None:
            if name in _OF_DATA:
                return _OF_DATA[name](self)
            head, *path = parse_path(name[1:])
            if (head, *path[:1]) == ("request", "body"):
                return await self._find_stored(tuple(path[1:]))
            if head == "filter" and not self._uses_filter():
                return UNBOUND
        failed: set[str] = set()
        values = await self._resolvers.resolve_all([name], self.exchange, failed)
        value = values[name]
        if name in failed:
            return _UNKNOWN
        return value() if callable(value) else value

    async def _read_changes(self) -> Any:
        if self.data is None or self.data.refusal is not None:
            return _UNKNOWN
        method = self.request.method
        if method not in _WITH_BODY:
            return WrittenChanges({})
        body = await read_documents(self.request)
        return await self.request.work(WrittenChanges, body, method, self.data)

    async def _find_stored(self, path: tuple[str, ...]) -> Any:
        """Return the value stored at `@request.body.a.b`, if it is unambiguous."""
        if _BODY not in self._known:
            await self.supply(_BODY)
        changes = self.get_changes()
        if not path:
            return changes.body if isinstance(changes.body, dict) else _UNKNOWN
        first, *rest = path
        stored = changes.find((first,))
        if not stored.found:
            touched = any(change.may_touch((first,)) for change in changes.written)
            return _UNKNOWN if touched else UNBOUND
        values = [get_value(value, tuple(rest)) for value in stored.found]
        is_one = stored.is_everywhere and all(value == values[0] for value in values)
        return values[0] if is_one else _UNKNOWN

    def _uses_filter(self) -> bool:
        """Return whether the service executes the request with its filter."""
        if self.data is None or self.data.resource is None:
            return False
        mode, method, type = self.data.parameters.mode, self.request.method, self.data.resource.type
        if method in _READS:
            return type in _FILTERED_READS
        if type not in _FILTERED_WRITES:
            return False
        return method == "DELETE" or mode in (None, WriteMode.UPDATE)

    def _is_id(self, text: str) -> bool:
        """Return whether the text is the last segment of a document's path."""
        resource = self.resource
        is_document = resource is not None and resource.type is ResourceType.DOCUMENT
        return is_document and self.segments[-1:] == (text,)

    def find_id(self) -> Any:
        """Return the id that the service looks up, with its type."""
        if self.data is None or self.data.resource is None or self.data.refusal is not None:
            return _UNKNOWN
        return self.data.resource.id


_OF_DATA: Final[Mapping[str, Callable[[RequestView], Any]]] = {
    "@request.db": lambda view: view.resource and view.resource.db,
    "@request.collection": lambda view: view.resource and view.resource.collection,
    "@request.resourceType": lambda view: view.resource and view.resource.type,
    "@request._id": RequestView.find_id,
    "@request.relativePath": lambda view: (
        _UNKNOWN if view.is_retyped else render_path(view.segments)
    ),
}


class WrittenChanges:
    """The changes of a request; for a body that is an array, the service defines its elements."""

    __slots__ = ("body", "contains", "effects", "written")

    def __init__(self, body: Any, method: str = "", request: DataRequest | None = None) -> None:
        is_pipeline = method == "PATCH" and isinstance(body, list)
        parts = body if isinstance(body, list) else [body]
        filters = _list_filters(method, request) if request is not None else []
        seeds = (
            change for filter in filters for change in read_filter(filter) if change.path != "_id"
        )
        read_part = read_stage if is_pipeline else read_body
        self.body = body
        self.effects = WriteEffects(map(read_part, parts), seeds, is_pipeline=is_pipeline)
        self.contains = self.effects.contains
        self.written = self.effects.written

    def find(self, key: FieldPath) -> StoredValues:
        """Return every value that is stored at the key; raises `NoValue` if that is uncertain."""
        values = self.effects.find(key)
        if values is None:
            raise NoValue("the stored value cannot be determined from the request")
        return values


def _list_filters(method: str, request: DataRequest) -> list[Any]:
    """Return the filters whose equalities a new document starts with; the path has its id."""
    resource, parameters = request.resource, request.parameters
    is_document = resource is not None and resource.type is ResourceType.DOCUMENT
    if method != "PATCH" or not is_document or parameters.mode is not WriteMode.UPSERT:
        return []
    return [parameters.shardkey, parameters.filter]


class NoValue(Exception):
    """A value is missing, so that a condition on it is neither true nor false."""


class AbsentValue(NoValue):
    """A value certainly does not exist, as `exists` tests; other values cannot be read."""


class Repeated(NoValue):
    """A value is given more than once, with different contents.

    The service decides which one counts; a rule that checked another one would let the caller
    choose between them.
    """


class Text(str):
    """A text that can represent another type: from a rule, a path, a header, a parameter.

    A value with its own type, such as a property of the caller, is compared with that type.
    """

    __slots__ = ()
