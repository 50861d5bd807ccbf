"""Views under row filters (decision 58): a view over filtered rows is refused.

MongoDB runs the definition of a view before any stage of ours, so a row filter for a source of the
view cannot hold inside it. A caller with such a filter may read the view only if the same rule
names the view itself. Sources are found transitively; what is unknown is refused.

The definition can change at any time. It is read before the command, or was read a moment ago, and
always again before the caller gets anything that depends on the result, errors included. A cursor
keeps the definition that it was opened with, so its first documents decide about all of them.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import InitVar, dataclass, field
from typing import Any, Final, NamedTuple

from docgraph.exchange.data import CollectionName, Consistency, Document
from docgraph.exchange.deadline import Deadline
from docgraph.exchange.errors import (
    TEMPORARY_FAILURES,
    DocgraphError,
    Forbidden,
    Overloaded,
    QueryError,
    StoreError,
)
from docgraph.exchange.exchange import RowFilters
from docgraph.observe import emit
from docgraph.observe.events import ViewDenied
from docgraph.runtime import LruDict
from docgraph.runtime.clock import elapsed
from docgraph.store.driver.command import Commands
from docgraph.store.driver.lenient_decode import encode_bson
from docgraph.store.driver.malformed import reading_reply
from docgraph.store.driver.portions import RawTake, Take
from docgraph.store.guard.references import find_references
from docgraph.store.guard.shield import Rows
from docgraph.store.names import namespace_of

_KEPT: Final = 1_000  # definitions
_SECONDS: Final = 1.0  # for which the first of the two reads of a definition is not repeated
_MAX_DEPTH: Final = 20  # of views on views, as in MongoDB
_MAX_SOURCES: Final = 1_000  # of one command
_UNREADABLE: Final = "definitions that cannot be read"


class ViewRefused(Forbidden):
    """A view would show rows that a row filter of the caller hides; it ends a GraphQL request."""

    def __init__(self) -> None:
        super().__init__("the row filters of this caller do not allow this read")


class _Changed(Overloaded):
    """The definition of a view changed while it was read; nothing was passed on."""

    def __init__(self) -> None:
        super().__init__("the definition of a view changed while it was read")


class RefusedView(NamedTuple):
    """A view, or another name of a command, and the filtered source that it reads."""

    view: str
    source: str

    def __str__(self) -> str:
        return (
            f"{self.view} reads {self.source}, whose rows are filtered: name {self.view} in "
            "mongo.readFilters of the same rule, with {} for all of its rows"
        )


class ViewDefinition(NamedTuple):
    """What a name reads: nothing but itself if it is no view."""

    encoded: bytes = b""
    sources: tuple[CollectionName, ...] = ()

    @classmethod
    def read(cls, db: str, description: Mapping[str, Any]) -> ViewDefinition:
        """Read the description of a collection or view; raise `QueryError`."""
        options = description.get("options") or {}
        if description.get("type") != "view" and "viewOn" not in options:
            return _NO_VIEW
        source, stages = options.get("viewOn"), options.get("pipeline", [])
        if not isinstance(source, str) or not source:
            raise QueryError("the view has no source")
        references = [reference.place for reference in find_references(stages, db)]
        encoded = encode_bson({"viewOn": source, "pipeline": stages})
        return cls(encoded, tuple(dict.fromkeys([(db, source), *references])))


_NO_VIEW: Final = ViewDefinition()
DefinitionsByName = dict[CollectionName, ViewDefinition]
_Load = Callable[[list[CollectionName]], Awaitable[DefinitionsByName]]


class Views:
    """Checks reads under row filters; most of them need no definition."""

    def __init__(self, commands: Commands) -> None:
        self._commands = commands
        self._recent: LruDict[tuple[str | None, CollectionName], tuple[float, ViewDefinition]]
        self._recent = LruDict(_KEPT)

    async def check(
        self,
        rows: Rows | None,
        places: Iterable[CollectionName],
        deadline: Deadline,
        consistency: Consistency | None = None,
        comment: Any = None,
    ) -> ViewCheck | None:
        """Raise `ViewRefused`, or return the check that the result has to pass; None: no need."""
        suspects = find_suspects(rows, places)
        if not rows or not suspects:  # as nearly always
            return None
        check = ViewCheck(self, rows, suspects, deadline, consistency, comment)
        await check.begin()
        return check

    async def find_refused(
        self, rows: Rows, places: Iterable[CollectionName], deadline: Deadline
    ) -> RefusedView | None:
        """Return which of these reads is refused, for tools; None: none."""
        suspects = find_suspects(rows, places)
        return await ViewCheck(self, rows, suspects, deadline).find_refused() if suspects else None

    def find_recent(self, place: CollectionName, preference: str | None) -> ViewDefinition | None:
        """Return a definition that was read a moment ago, or None."""
        recent = self._recent.get((preference, place))
        return recent[1] if recent is not None and recent[0] > elapsed() else None

    async def load(
        self, places: list[CollectionName], deadline: Deadline, preference: str | None
    ) -> DefinitionsByName:
        """Read the definitions now; a name that does not exist has none. Raise `QueryError`.

        A view on the buckets of a time series is not listed: a name that is missing may be one.
        """
        definitions: DefinitionsByName = {}

        async def describe(db: str, wanted: Document) -> list[Document]:
            cursor = {"batchSize": len(places) + 1}
            command: Document = {"listCollections": 1, "filter": wanted, "cursor": cursor}
            consistency = Consistency(preference, "local")
            return await self._commands.fetch(db, command, deadline, consistency)

        for db in dict.fromkeys(db for db, _ in places):
            names = {name for other, name in places if other == db}
            described = await describe(db, {"name": {"$in": [*names]}})
            with reading_reply():
                listed = {
                    name: ViewDefinition.read(db, entry)
                    for entry in described
                    if (name := str(entry["name"])) in names  # also if the response is malformed
                }
            if missing := names - listed.keys():
                series = await describe(db, {"type": "timeseries"})
                with reading_reply():
                    sources = tuple((db, str(entry["name"])) for entry in series)
                    hidden = ViewDefinition(sources=sources)
                listed |= dict.fromkeys(missing, hidden)
            definitions |= {(db, name): definition for name, definition in listed.items()}
        until = elapsed() + _SECONDS
        for place, definition in definitions.items():
            self._recent.put((preference, place), (until, definition))
        return definitions


def find_suspects(rows: Rows | None, places: Iterable[CollectionName]) -> list[CollectionName]:
    """Return the names whose definitions decide: those that the rule does not name itself."""
    if not rows:
        return []
    filtered = {name for name, row in rows.items() if row}
    unnamed = rows.unnamed if isinstance(rows, RowFilters) else frozenset()
    return [
        place
        for place in dict.fromkeys(places)
        if ((name := namespace_of(*place)) not in rows or name in unnamed) and filtered - {name}
    ]


@dataclass(eq=False)
class ViewCheck:
    """The check of one read: `begin` before it, `confirm` before its result is used."""

    _views: Views
    rows: InitVar[Rows]
    _suspects: list[CollectionName]
    _deadline: Deadline
    _consistency: Consistency | None = None
    _comment: Any = None
    _known: DefinitionsByName = field(default_factory=dict)

    def __post_init__(self, rows: Rows) -> None:
        self._filtered = frozenset(name for name, row in rows.items() if row)
        self._preference = None if self._consistency is None else self._consistency.preference

    async def begin(self) -> None:
        """Raise `ViewRefused` by the definitions of a moment ago, unless the current ones allow."""
        if await self.find_refused(self._load_recent) is not None:
            self._reject(await self.find_refused())

    async def find_refused(self, load: _Load | None = None) -> RefusedView | None:
        try:
            self._known = await self._trace(load or self._load)
        except TEMPORARY_FAILURES:
            raise
        except (StoreError, QueryError):
            return RefusedView(namespace_of(*self._suspects[0]), _UNREADABLE)
        for suspect in self._suspects:
            for source in self._find_sources(suspect):
                if (name := namespace_of(*source)) in self._filtered:
                    return RefusedView(namespace_of(*suspect), name)
        return None

    async def run(
        self, send: Callable[[Take | None], Awaitable[list[Document]]], take: Take | None
    ) -> list[Document]:
        """Send a command; its documents, or its error, are those of confirmed definitions.

        A definition may have changed since it was read a moment ago: the command is sent again.
        """
        try:
            return await self._run_once(send, take)
        except _Changed:
            return await self._run_once(send, take)

    async def _run_once(
        self, send: Callable[[Take | None], Awaitable[list[Document]]], take: Take | None
    ) -> list[Document]:
        is_confirmed = False

        async def pass_confirmed(documents: list[Any]) -> None:
            nonlocal is_confirmed
            if not is_confirmed:
                await self.confirm()
                is_confirmed = True
            if take is not None:
                await take(documents)

        try:
            results = await send(take and RawTake.like(pass_confirmed, take))
        except TEMPORARY_FAILURES:
            raise
        except DocgraphError:
            if not is_confirmed:
                await self.confirm()
            raise
        if not is_confirmed:
            await self.confirm()
        return results

    async def confirm(self) -> None:
        """Raise an error unless the definitions are still the same."""
        before = self._known
        try:
            if before == await self._load([*before]):
                return
        except TEMPORARY_FAILURES:
            raise
        except (StoreError, QueryError):
            pass  # the next line finds the same
        self._reject(await self.find_refused())
        raise _Changed

    def _reject(self, refused: RefusedView | None) -> None:
        if refused is None:
            return
        request = self._comment.get("request", "") if isinstance(self._comment, Mapping) else ""
        emit(ViewDenied(request, *refused))
        raise ViewRefused

    async def _load(self, places: list[CollectionName]) -> DefinitionsByName:
        return await self._views.load(places, self._deadline, self._preference)

    async def _load_recent(self, places: list[CollectionName]) -> DefinitionsByName:
        recent = {name: self._views.find_recent(name, self._preference) for name in places}
        definitions = {
            place: definition for place, definition in recent.items() if definition is not None
        }
        missing = [place for place in places if place not in definitions]
        return definitions | (await self._load(missing) if missing else {})

    async def _trace(self, load: _Load) -> DefinitionsByName:
        """Return the definitions of the suspects, and of all that they read."""
        definitions: DefinitionsByName = {}
        pending = self._suspects
        for _ in range(_MAX_DEPTH + 1):
            pending = [name for name in dict.fromkeys(pending) if name not in definitions]
            if not pending:
                return definitions
            if len(definitions) + len(pending) > _MAX_SOURCES:
                break
            definitions |= await load(pending)
            pending = [source for name in pending for source in definitions[name].sources]
        raise QueryError("too many views read each other")

    def _find_sources(self, place: CollectionName) -> list[CollectionName]:
        sources: dict[CollectionName, None] = {}
        pending = [*self._known[place].sources]
        while pending:
            source = pending.pop()
            if source not in sources:
                sources[source] = None
                pending += self._known[source].sources
        return [*sources]
