"""Template errors: flaws in the mapping itself, and values that do not fit it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar

from docgraph.exchange.errors import DefinitionError, QueryError


@dataclass(frozen=True, slots=True)
class Flaw:
    """One mistake in a template; `where` is its location inside it (`author.$arg`), may be empty.

    `line` and `column` are those in the text that `where` names, if it is a text; otherwise 0.
    """

    where: str
    what: str
    hint: str | None = None
    line: int = field(default=0, compare=False)
    column: int = field(default=0, compare=False)


class TemplateError(DefinitionError):
    """A template that cannot work, with every flaw found in it."""

    def __init__(self, flaws: Sequence[Flaw]) -> None:
        self.flaws = tuple(flaws)
        first = self.flaws[0]
        place = f"{first.where}: " if first.where else ""
        super().__init__(f"{place}{first.what}", hint=first.hint)


class NotBound(QueryError):
    """A name without value and without default (decision 9)."""

    code: ClassVar[str] = "variable-not-bound"

    def __init__(self, name: str) -> None:
        super().__init__(
            f"variable not bound: {name}",
            hint=f'give it a default in the mapping: {{"$arg": ["{name}", null]}}',
        )
        self.name = name


class UnusableValue(QueryError):
    """A value that cannot be used where the mapping puts it."""

    code: ClassVar[str] = "bad-value"


class MissingKey(Exception):
    """The parent has no value for a required foreign key: nothing is joined (decision 11)."""
