"""Template scope: arguments, variables, root document, parent document."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from docgraph.exchange import Document, Exchange
from docgraph.variables.moments import mark_moments
from docgraph.variables.paths import get_bound
from docgraph.variables.resolvers import Fresh, Resolvers
from docgraph.variables.value_marks import UNBOUND
from docgraph.variables.variable_names import ValueOrigin, VariableName


class Variables:
    """The predefined variables of one request, resolved before anything is rendered."""

    __slots__ = ("_values",)

    def __init__(self, values: Mapping[str, Any] | None = None) -> None:
        self._values = dict(values or {})

    @classmethod
    async def resolve(
        cls, names: Iterable[str], exchange: Exchange, resolvers: Resolvers
    ) -> Variables:
        """Resolve the `@…` names among `names`; one without value is recorded as unbound."""
        wanted = sorted({name for name in names if name.startswith("@")})
        return cls(await resolvers.resolve_all(wanted, exchange))

    def mark_moments(self) -> Variables:
        """Return the variables with marks in place of the values of the moment."""
        return Variables(mark_moments(self._values))

    def lookup(self, name: str) -> Any:
        """Return the value of the expression, or UNBOUND; `@rnd(n)` differs at every call."""
        value = self._values.get(name, UNBOUND)
        return value() if isinstance(value, Fresh) else value


@dataclass(frozen=True, slots=True)
class Scope:
    """The values of one fetch; `root` and `parent` if the field has a parent document."""

    arguments: Mapping[str, Any] = field(default_factory=dict)
    variables: Variables = field(default_factory=Variables)
    root: Document | None = None
    parent: Document | None = None

    def lookup(self, reference: VariableName) -> Any:
        """Return the value of a name, or UNBOUND."""
        match reference.source:
            case ValueOrigin.ARGUMENT:
                value = self.arguments.get(reference.head, UNBOUND)
            case ValueOrigin.ROOT:
                value = UNBOUND if self.root is None else self.root
            case ValueOrigin.VARIABLE:
                return self.variables.lookup(reference.name)
        return get_bound(value, reference.path) if reference.path else value

    def is_bound(self, reference: VariableName) -> bool:
        """Check if the name has a value; an explicit null is one."""
        return self.lookup(reference) is not UNBOUND
