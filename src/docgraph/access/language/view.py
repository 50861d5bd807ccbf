"""A request as predicates see it: what its service has parsed, and values that are found on demand.

Predicates are plain functions, so that a hundred rules cost next to nothing. One that needs a value
which has to be awaited (a variable, the body) raises `Wanted`; whoever evaluates it finds the value
and asks again. Nothing is read, and nothing resolved, for a predicate that is not reached.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from docgraph.access.language.seeds import find_seeds
from docgraph.access.language.texts import NoValue, Text
from docgraph.access.language.written import Changes
from docgraph.codec.documents import read_documents
from docgraph.exchange import DataRequest, Exchange, Resource, ResourceType
from docgraph.exchange.errors import RequestError
from docgraph.exchange.path import render_path
from docgraph.variables import UNBOUND, Resolvers, Variables

__all__ = ["RequestView", "Wanted"]

_BODY: Final = "the body"  # not the name of any variable
_LENGTH: Final = "the length of the body"


class Wanted(Exception):
    """A predicate cannot go on without this value."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.name = name


class RequestView:
    """One request; `bound` are the `${…}` of the rule that is being looked at.

    `data` is what the REST API will carry out; None for requests to other services. `segments` are
    the path that is really served.
    """

    __slots__ = ("_known", "_resolvers", "bound", "data", "exchange", "request", "segments")

    def __init__(self, exchange: Exchange, resolvers: Resolvers) -> None:
        parsed = exchange.parsed
        self.exchange = exchange
        self.request = exchange.request
        self.data = parsed if isinstance(parsed, DataRequest) else None
        self.segments = exchange.request.segments if self.data is None else self.data.segments
        self.bound: dict[str, Any] = {}
        self._known: dict[str, Any] = {}
        self._resolvers = resolvers

    @property
    def resource(self) -> Resource | None:
        """What a request to the REST API addresses."""
        return None if self.data is None else self.data.resource

    def get(self, name: str) -> Any:
        """The value of `@…` or of the body; raises `Wanted` or `NoValue`."""
        try:
            value = self._known[name]
        except KeyError:
            raise Wanted(name) from None
        if value is UNBOUND:
            raise NoValue(name)
        return value

    def get_changes(self) -> Changes:
        """What the request writes; raises `Wanted` or `NoValue`."""
        changes: Changes = self.get(_BODY)
        return changes

    def get_length(self) -> int:
        """The length of the body as its service sees it; raises `Wanted` or `NoValue`."""
        if self.request.is_coded:
            inflated: int = self.get(_LENGTH)
            return inflated
        announced = self.request.headers.get("content-length")
        if announced is None or not announced.isdigit():
            raise NoValue("the length is not announced")
        return int(announced)

    def bind(self, found: Mapping[str, str]) -> None:
        """Keep parts of the path or of other texts, for `${…}` further to the right."""
        for name, text in found.items():
            self.bound[name] = self.find_id() if self._is_id(text) else Text(text)

    def get_bound(self, name: str) -> Any:
        """The value of `${…}`."""
        value = self.bound.get(name)
        if value is None:
            raise NoValue(name)
        return value

    async def supply(self, name: str) -> None:
        """Find a value; what cannot be read has none. A null counts as none, too."""
        try:
            value = await self._find(name)
        except RequestError:
            value = UNBOUND
        self._known[name] = UNBOUND if value is None else value

    async def supply_all(self, names: frozenset[str]) -> Variables:
        """Those values, found where need be, for a template to be rendered with."""
        for name in sorted(names):
            if name not in self._known:
                await self.supply(name)
        return Variables({name: self._known[name] for name in names})

    async def _find(self, name: str) -> Any:
        if name == _BODY:
            return await self._read_changes()
        if name == _LENGTH:
            return len(await self.request.read_body())
        if name in _OF_DATA and self.data is not None:
            return _OF_DATA[name](self)
        found = await self._resolvers.resolve_all([name], self.exchange)
        value = found[name]
        return value() if callable(value) else value

    async def _read_changes(self) -> Any:
        if self.data is None or self.data.refusal is not None:
            return UNBOUND
        method = self.request.method
        return Changes(
            await read_documents(self.request),
            is_update=method == "PATCH",
            seeds=tuple(find_seeds(method, self.data)),
        )

    def _is_id(self, text: str) -> bool:
        """Whether the text is the last segment of a document's path."""
        resource = self.resource
        is_document = resource is not None and resource.type is ResourceType.DOCUMENT
        return is_document and text == self.segments[-1]

    def find_id(self) -> Any:
        """The id that the service looks for, as the value that it is; None: nobody knows it."""
        if self.data is None or self.data.resource is None or self.data.refusal is not None:
            return None
        return self.data.resource.id


_OF_DATA: Final[Mapping[str, Callable[[RequestView], Any]]] = {
    "@request.db": lambda view: view.resource and view.resource.db,
    "@request.collection": lambda view: view.resource and view.resource.collection,
    "@request.resourceType": lambda view: view.resource and view.resource.type,
    "@request._id": RequestView.find_id,
    "@request.relativePath": lambda view: render_path(view.segments),
}
