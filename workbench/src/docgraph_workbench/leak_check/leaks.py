"""Leaks: the oracle that compares both worlds, and the report of what leaked by which request."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Any, Final

from docgraph_workbench.fuzz.fuzz_values import Canary, Finder
from docgraph_workbench.leak_check.operation import GRAPHQL, MCP, REST, FuzzRequest
from docgraph_workbench.leak_check.world import Reply, World

VALUE, DIFFERENCE, NAME = "value", "difference", "name"


@dataclass(frozen=True, slots=True)
class Showing:
    """A finding in a response: a canary, the name of a hidden field, or a difference."""

    kind: str
    canary: Canary | None = None
    name: str = ""
    detail: str = ""
    cause: Canary | None = None  # the canary that makes the difference
    world: int = 0  # the world that showed it
    is_failure: bool = False  # the worlds differ in whether the request fails

    def key(self, operation: FuzzRequest) -> tuple[Any, ...]:
        """Return a key: leaks with the same key are one."""
        if self.canary is not None:
            return (operation.door, self.kind, self.canary.namespace, *self._place())
        if self.kind == NAME:
            return (operation.door, self.kind, self.name)
        cause = None if self.cause is None else (self.cause.namespace, self.cause.path)
        way = operation.way if self.is_failure else ""
        return (operation.door, self.kind, operation.namespace, cause, way)

    def _place(self) -> tuple[Any, ...]:
        """Return the location: a row is one leak, whichever of its properties shows it."""
        if self.canary is None or self.canary.is_row:
            return (None if self.canary is None else self.canary.reason,)
        return (self.canary.path,)


@dataclass(frozen=True, slots=True)
class Leak:
    """A request that reveals something hidden."""

    operation: FuzzRequest
    showing: Showing
    advice: str

    def as_dict(self) -> dict[str, Any]:
        """Return the leak for JSON."""
        canary = self.showing.canary or self.showing.cause
        place: dict[str, Any] = {}
        if canary is not None:
            place = {"collection": canary.namespace, "field": canary.path}
            place |= {"hiddenBy": canary.reason, "row": canary.is_row}
        elif self.operation.namespace:
            place = {"collection": self.operation.namespace}
        return {
            "door": self.operation.door,
            "kind": self.showing.kind,
            "what": self.describe(),
            **place,
            "operation": self.operation.describe(),
            "advice": self.advice,
        }

    def describe(self) -> str:
        """Return the finding as a sentence."""
        canary, door = self.showing.canary, self.operation.door
        if canary is not None and canary.is_row:
            return f"{door} shows rows of {canary.namespace} that are excluded by {canary.reason}"
        if canary is not None:
            hidden = f"{canary.path} of {canary.namespace}, which is hidden by {canary.reason}"
            return f"{door} shows {hidden}"
        if self.showing.kind == NAME:
            return f"{door} tells the name of the hidden field {self.showing.name}"
        cause, what = self.showing.cause, "something hidden"
        if cause is not None:
            name = "rows" if cause.is_row else cause.path
            what = f"{name} of {cause.namespace} (kept back by {cause.reason})"
        return f"{door} answers differently where only {what} differs: {self.showing.detail}"


@dataclass(slots=True)
class LeakReport:
    """The results of a run."""

    app: str
    caller: str
    seed: int
    leaks: list[Leak] = field(default_factory=list)
    tried: dict[str, int] = field(default_factory=dict)
    answered: dict[str, int] = field(default_factory=dict)
    hidden: list[str] = field(default_factory=list)
    canaries: int = 0
    notes: list[str] = field(default_factory=list)

    @property
    def shows_nothing(self) -> bool:
        """Whether no door returned a response in which there could have been a leak."""
        return not self.leaks and not any(self.answered.values())

    def as_dict(self) -> dict[str, Any]:
        """Return the report for JSON."""
        return {
            "app": self.app,
            "caller": self.caller,
            "seed": self.seed,
            "leaks": [leak.as_dict() for leak in self.leaks],
            "operations": self.tried,
            "answered": self.answered,
            "hidden": self.hidden,
            "canaries": self.canaries,
            "notes": self.notes,
        }


def advise(operation: FuzzRequest, showing: Showing) -> str:
    """Return advice on how to fix the leak."""
    canary, cause = showing.canary, showing.cause
    in_app = operation.door in (GRAPHQL, MCP)
    if showing.kind == NAME:
        return "look for descriptions, errors and plugins that say the name"
    if showing.is_failure and cause is not None and cause.is_row:
        return (
            "an expression runs on rows that the row filter excludes, and its failure tells about "
            "them: look for plugins that read by themselves, or report it as a fault of docgraph"
        )
    if canary is None and cause is not None and cause.is_row and operation.writes:
        return (
            "mongo.readFilter is for reads only: give the rule that admits this request "
            "mongo.writeFilter, too"
        )
    if canary is None:
        return (
            "check the conditions and the order that this request may use: a filter, a sort, a "
            "count or an error depends on what is hidden; @visible also hides arguments"
        )
    if canary.is_row:
        where = f'mongo.readFilters {{"{canary.namespace}": …}}' if in_app else "mongo.readFilter"
        return f"give the rule that admits this request {where}"
    if not in_app:
        hide = f'mongo.projectResponse {{"{canary.path}": 0}}'
        return f"give the rule that admits this request {hide}, or do not admit it"
    return (
        "hide every field that is made of this property with @visible (projectResponse is for "
        "REST only), or take the property out of its stages"
    )


_MAX_TRIES: Final = 40  # smaller operations that are tried for one leak
_OK: Final = 300
_FAILED: Final = (400, 422)  # the database could not evaluate the request
# The same inside a body with status 200, which may be JSON in a JSON string.
_ERRORS: Final = re.compile(rb'errors\\*":\[\{|"isError":true')
_REPEATED: Final = 2
_REPEATED_ORDER: Final = 8  # two items have the same order by chance every other time
_AROUND: Final = 30  # characters around the first difference of two responses


@dataclass(slots=True)
class LeakOracle:
    """Decides what leaked: compares the responses of both worlds, and searches for canaries."""

    worlds: Sequence[World]
    finder: Finder
    secret_names: Iterable[str]
    restore: Callable[[str], Awaitable[None]]
    answered: int = 0

    async def try_out(self, operation: FuzzRequest) -> list[Showing]:
        """Return what the responses to an operation show; a difference may be chance."""
        replies = await self._send(operation)
        self.answered += replies[0].status < _OK
        showings = self.find_canaries(operation, replies)
        return [*showings, Showing(DIFFERENCE)] if self._differ(replies) else showings

    async def find_difference(self, operation: FuzzRequest) -> Showing | None:
        """Return the difference of the responses, unless there is none or it is chance."""
        replies = await self._send(operation)
        if self._differ(replies) and await self._is_steady(operation, replies):
            failed = [_has_failed(reply) for reply in replies]
            detail = self._describe_difference(replies)
            return Showing(DIFFERENCE, detail=detail, is_failure=any(failed) and not all(failed))
        return None

    async def _is_steady(self, operation: FuzzRequest, replies: Sequence[Reply]) -> bool:
        """Return whether each world repeats its response: groups have no fixed order."""
        first = self._normalise(replies)
        is_order = _sort(replies[0].body) == _sort(replies[1].body)
        for _ in range(_REPEATED_ORDER if is_order else _REPEATED):
            if self._normalise(await self._send(operation)) != first:
                return False
        return True

    def find_canaries(self, operation: FuzzRequest, replies: Sequence[Reply]) -> list[Showing]:
        """Return canaries and secret names in the bytes of responses."""
        said = operation.said
        showings: dict[int, Showing] = {}
        for world, reply in enumerate(replies):
            data = reply.raw if reply.raw.endswith(reply.body) else reply.raw + reply.body
            for canary in self.finder.find(data, besides=said):
                showings[id(canary)] = Showing(VALUE, canary, world=world)
        if operation.door != REST:
            text = "\n".join(reply.body.decode("utf-8", "replace") for reply in replies)
            for name in sorted(self.secret_names):
                if name.lower() not in said.lower() and _names(text, name):
                    showings[id(name)] = Showing(NAME, name=name)
        return list(showings.values())

    async def shrink(self, operation: FuzzRequest, showing: Showing) -> tuple[FuzzRequest, Showing]:
        """Return the smallest operation that shows the same, within a number of tries."""
        tries, smallest, is_smaller = 0, operation, True
        while is_smaller and tries < _MAX_TRIES:
            is_smaller = False
            for smaller in islice(smallest.shrink(), _MAX_TRIES - tries):
                tries += 1
                same = await self._find_again(smaller, showing)
                if same is not None:
                    smallest, showing, is_smaller = smaller, same, True
                    break
        return smallest, showing

    async def _find_again(self, operation: FuzzRequest, showing: Showing) -> Showing | None:
        """Return the same showing for another operation; a value needs one world only."""
        if showing.kind == DIFFERENCE:
            return await self.find_difference(operation)
        wanted = showing.key(operation)
        replies = await self._send(operation, self.worlds[showing.world : showing.world + 1])
        showings = self.find_canaries(operation, replies)
        again = next(
            (candidate for candidate in showings if candidate.key(operation) == wanted), None
        )
        return None if again is None else replace(again, world=showing.world)

    async def _send(
        self, operation: FuzzRequest, worlds: Sequence[World] | None = None
    ) -> list[Reply]:
        asked = self.worlds if worlds is None else worlds
        replies = [await world.send(operation) for world in asked]
        if operation.writes:
            if any(reply.status < _OK for reply in replies):
                replies = [
                    await self._compare_after(world, operation, reply)
                    for world, reply in zip(asked, replies, strict=True)
                ]
            await self.restore(operation.namespace)
        return replies

    async def _compare_after(self, world: World, operation: FuzzRequest, reply: Reply) -> Reply:
        """Return the response to a write, with what can be read afterwards."""
        after = await world.send(
            FuzzRequest(REST, "GET", operation.base, {"sort": {"$natural": 1}})
        )
        return Reply(reply.status, reply.headers, reply.body + after.body, reply.raw + after.raw)

    def _differ(self, replies: Sequence[Reply]) -> bool:
        first, second = self._normalise(replies)
        return first != second

    def _normalise(self, replies: Sequence[Reply]) -> list[tuple[int, str]]:
        return [world.normalise(reply) for world, reply in zip(self.worlds, replies, strict=True)]

    def _describe_difference(self, replies: Sequence[Reply]) -> str:
        """Return where two responses begin to differ."""
        (status, text), (other_status, other) = self._normalise(replies)
        if status != other_status:
            return f"status {status} or {other_status}"
        pairs = enumerate(zip(text, other, strict=False))
        place = next((n for n, (a, b) in pairs if a != b), min(len(text), len(other)))
        start, end = max(0, place - _AROUND), place + _AROUND
        shown = (" ".join(side[start:end].split()) for side in (text, other))
        return " or ".join(f"…{excerpt}…" for excerpt in shown)


def _has_failed(reply: Reply) -> bool:
    """Return whether a request was permitted and then failed."""
    return reply.status in _FAILED or _ERRORS.search(reply.body) is not None


def _sort(body: bytes) -> str:
    """Return the content of a response, independent of its order."""
    return "".join(sorted(re.findall(r"[\w.]+", body.decode("utf-8", "replace"))))


def _names(text: str, name: str) -> bool:
    """Return whether a text names a field: in quotes, or as a schema does; a word may be chance."""
    word = re.escape(name)
    quoted = rf"""["'`]{word}\\?["'`]"""
    declared = rf"(?:^|\n|\\n|\{{)\s*{word}\s*[(:]"
    return re.search(f"{quoted}|{declared}", text) is not None
