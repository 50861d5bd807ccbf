"""What a template is rendered against: arguments, variables, root document, parent document."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from docgraph.exchange import Document, Exchange
from docgraph.variables.names import Reference, Source
from docgraph.variables.paths import get_bound
from docgraph.variables.resolvers import Fresh, Resolvers
from docgraph.variables.values import UNBOUND

__all__ = ["Scope", "Variables"]


class Variables:
    """The predefined variables of one request, resolved before anything is rendered."""

    __slots__ = ("_values",)

    def __init__(self, values: Mapping[str, Any] | None = None) -> None:
        self._values = dict(values or {})

    @classmethod
    async def resolve(
        cls, names: Iterable[str], exchange: Exchange, resolvers: Resolvers
    ) -> Variables:
        """Resolve the `@…` names among `names`; one without value is remembered as unbound."""
        wanted = sorted({name for name in names if name.startswith("@")})
        return cls(await resolvers.resolve_all(wanted, exchange))

    def lookup(self, name: str) -> Any:
        """The value of the expression, or UNBOUND; `@rnd(n)` is a fresh one at every call."""
        value = self._values.get(name, UNBOUND)
        return value() if isinstance(value, Fresh) else value


@dataclass(frozen=True, slots=True)
class Scope:
    """The values of one fetch; `root` and `parent` where the field has a parent document."""

    arguments: Mapping[str, Any] = field(default_factory=dict)
    variables: Variables = field(default_factory=Variables)
    root: Document | None = None
    parent: Document | None = None

    def lookup(self, reference: Reference) -> Any:
        """The value of a name, or UNBOUND."""
        match reference.source:
            case Source.ARGUMENT:
                value = self.arguments.get(reference.head, UNBOUND)
            case Source.ROOT:
                value = UNBOUND if self.root is None else self.root
            case Source.VARIABLE:
                return self.variables.lookup(reference.name)
        return get_bound(value, reference.path) if reference.path else value

    def is_bound(self, reference: Reference) -> bool:
        """Whether the name has a value; an explicit null is one."""
        return self.lookup(reference) is not UNBOUND
