"""What is found in a definition: errors that stop it, warnings that come back with the answer."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from docgraph.exchange.errors import DefinitionError
from docgraph.variables import Flaw

__all__ = ["Finding", "Findings", "Report", "join_place"]


@dataclass(frozen=True, slots=True)
class Finding:
    """An error or a warning: its place in the document, what is wrong, the way out."""

    where: str
    what: str
    hint: str | None = None

    def __str__(self) -> str:
        return f"{self.where}: {self.what}" if self.where else self.what


@dataclass(frozen=True, slots=True)
class Report:
    """Everything that was found (decision 7)."""

    errors: tuple[Finding, ...] = ()
    warnings: tuple[Finding, ...] = ()

    def as_error(self) -> DefinitionError:
        """One error for all of them, a line of the message for each."""
        first, *others = self.errors
        lines = [f"Wrong GraphQL App definition: {first}", *map(str, others)]
        return DefinitionError("\n".join(lines), hint=first.hint, details=[*map(str, self.errors)])


@dataclass(slots=True)
class Findings:
    """Collects while a definition is examined."""

    errors: list[Finding] = field(default_factory=list)
    warnings: list[Finding] = field(default_factory=list)

    def error(self, where: str, what: str, hint: str | None = None) -> None:
        """Something that cannot work."""
        self.errors.append(Finding(where, what, hint))

    def warn(self, where: str, what: str, hint: str | None = None) -> None:
        """Something that has no effect or might be wrong."""
        self.warnings.append(Finding(where, what, hint))

    def flaws(self, where: str, flaws: Iterable[Flaw]) -> None:
        """The flaws of a template that stands at `where`."""
        for flaw in flaws:
            self.error(join_place(where, flaw.where), flaw.what, flaw.hint)

    def report(self) -> Report:
        """What was found."""
        return Report(tuple(self.errors), tuple(self.warnings))


def join_place(where: str, inner: str) -> str:
    """`mappings.User.posts.find` and `author.$arg`, or `…stages` and `[0].$match`."""
    if not inner:
        return where
    return f"{where}{inner}" if inner.startswith("[") else f"{where}.{inner}"
