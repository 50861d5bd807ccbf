"""Leak report: what leaked, by which request, and what to do."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final

from docgraph.cli.fuzz.operation import GRAPHQL, MCP, FuzzRequest
from docgraph.workbench.fuzz.fuzz_values import Canary

VALUE, DIFFERENCE, NAME = "value", "difference", "name"
_APPS: Final = (GRAPHQL, MCP)


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
        """Return what is shown, in a sentence."""
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
            "leaks": [one.as_dict() for one in self.leaks],
            "operations": self.tried,
            "answered": self.answered,
            "hidden": self.hidden,
            "canaries": self.canaries,
            "notes": self.notes,
        }


def advise(operation: FuzzRequest, showing: Showing) -> str:
    """Return what to do about it."""
    canary, cause = showing.canary, showing.cause
    in_app = operation.door in _APPS
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
            "count or an error depends on what is hidden"
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
