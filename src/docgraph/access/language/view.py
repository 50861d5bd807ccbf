"""A request as predicates see it: path, method, parameters, and values that are found on demand.

Predicates are plain functions, so that a hundred rules cost next to nothing. One that needs a value
which has to be awaited (a variable, the body) raises `Wanted`; whoever evaluates it finds the value
and asks again. Nothing is read, and nothing resolved, for a predicate that is not reached.
"""

from __future__ import annotations

from typing import Any

from docgraph.codec.documents import read_documents
from docgraph.exchange import Exchange, Resource
from docgraph.exchange.errors import RequestError
from docgraph.variables import UNBOUND, Resolvers, Variables

__all__ = ["BODY", "NoValue", "Repeated", "RequestView", "Wanted"]

BODY = "the body"  # not the name of any variable
_DOCUMENTS = "mongo"  # the service whose bodies are documents
_MODES, _UPDATE = ("wm", "writeMode"), "update"
_CONDITIONS = ("filter", "shardkey")

_OF_RESOURCE = {
    "@request.db": "db",
    "@request.collection": "collection",
    "@request._id": "id",
    "@request.resourceType": "type",
}


class Wanted(Exception):
    """A predicate cannot go on without this value."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.name = name


class NoValue(Exception):
    """Something has no value, so that a condition on it neither holds nor fails."""


class Repeated(NoValue):
    """Something is there more than once, with different values.

    Which one counts is up to whoever serves the request; a rule that looked at another one would
    let the caller choose between them.
    """


class RequestView:
    """One request; `bound` are the `${…}` of the rule that is being looked at."""

    __slots__ = ("_known", "_resolvers", "bound", "exchange", "request", "resource", "segments")

    def __init__(
        self, exchange: Exchange, resolvers: Resolvers, resource: Resource | None = None
    ) -> None:
        self.exchange = exchange
        self.request = exchange.request
        self.segments = exchange.request.segments
        self.resource = resource
        self.bound: dict[str, str] = {}
        self._known: dict[str, Any] = {}
        self._resolvers = resolvers

    @property
    def has_document(self) -> bool:
        """Whether the body, if there is one, holds documents: not so for GraphQL."""
        return self.exchange.service == _DOCUMENTS

    def get(self, name: str) -> Any:
        """The value of `@…` or of the body; raises `Wanted` or `NoValue`."""
        try:
            value = self._known[name]
        except KeyError:
            raise Wanted(name) from None
        if value is UNBOUND:
            raise NoValue(name)
        return value

    def get_bound(self, name: str) -> str:
        """The value of `${…}`."""
        try:
            return self.bound[name]
        except KeyError:
            raise NoValue(name) from None

    async def supply(self, name: str) -> None:
        """Find a value; what cannot be read has none. A null counts as none, too."""
        try:
            value = await self._find(name)
        except RequestError:
            value = UNBOUND
        self._known[name] = UNBOUND if value is None and name != BODY else value

    async def supply_all(self, names: frozenset[str]) -> Variables:
        """Those values, found where need be, for a template to be rendered with."""
        for name in sorted(names):
            if name not in self._known:
                await self.supply(name)
        return Variables({name: self._known[name] for name in names})

    async def _find(self, name: str) -> Any:
        if name == BODY:
            return UNBOUND if self._may_store_filter() else await read_documents(self.request)
        attribute = _OF_RESOURCE.get(name)
        if attribute is not None:
            return None if self.resource is None else getattr(self.resource, attribute)
        found = await self._resolvers.resolve_all([name], self.exchange)
        value = found[name]
        return value() if callable(value) else value

    def _may_store_filter(self) -> bool:
        """Whether the database could put conditions of the filter into a new document.

        An update that creates its document begins with the equalities of the filter, so that what
        is stored is not only what the body says.
        """
        query = self.request.query
        creates = any(mode.lower() != _UPDATE for name in _MODES for mode in query.get_list(name))
        filters = any(name in query for name in _CONDITIONS)
        return self.request.method == "PATCH" and creates and filters
