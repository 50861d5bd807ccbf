"""What is found in a definition: errors that stop it, warnings that come back with the answer."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field, replace
from typing import Any, Final, NamedTuple

from docgraph.config.nearest import find_nearest
from docgraph.exchange.errors import DefinitionError
from docgraph.store.facts import CANNOT_RUN, CHECK_ARGUMENTS
from docgraph.variables import ConstantPart, Flaw, UnknownOperator

__all__ = ["Finding", "Findings", "Namespace", "Place", "Question", "Report", "join_place"]

# Nobody reads more of them, and a definition full of mistakes is looked through all the same.
_MOST_SUGGESTIONS: Final = 20
_MOST_NAMES: Final = 500


class Place(NamedTuple):
    """Where in a text: both are counted from 1."""

    line: int
    column: int


@dataclass(frozen=True, slots=True)
class Finding:
    """An error or a warning: its place in the document, what is wrong, the way out.

    `place` is that in the text of the part of the definition that `where` begins with.
    """

    where: str
    what: str
    hint: str | None = None
    place: Place | None = field(default=None, compare=False)

    def __str__(self) -> str:
        return f"{self.where}: {self.what}" if self.where else self.what

    def as_dict(self) -> dict[str, Any]:
        """The finding, ready for JSON."""
        return {"where": self.where, "what": self.what, "hint": self.hint}


@dataclass(frozen=True, slots=True)
class Namespace:
    """A collection that a mapping reads."""

    where: str
    db: str
    collection: str


@dataclass(frozen=True, slots=True)
class Ordering:
    """A sort whose ties may have no order; `advice` is the index that gives them one."""

    where: str
    db: str
    collection: str
    sort: tuple[tuple[str, Any], ...] = field(hash=False)  # {"$meta": …} has none
    pinned: frozenset[str] = field(default_factory=frozenset)
    advice: str = field(default="", compare=False)


Question = UnknownOperator | ConstantPart | Namespace | Ordering
"""Something that only the database knows: its operators and stages, collections and indexes."""


@dataclass(frozen=True, slots=True)
class Report:
    """Everything that was found (decision 7); `questions` are open until they are settled."""

    errors: tuple[Finding, ...] = ()
    warnings: tuple[Finding, ...] = ()
    questions: tuple[Question, ...] = ()

    def settle(self, refused: Collection[Question]) -> Report:
        """The report with the answers of the database: what it refuses, and does not have."""
        findings = Findings([*self.errors], [*self.warnings])
        answers = {one: one for one in refused}  # with the advice, which does not count as equal
        for question in self.questions:
            answer = answers.get(question)
            findings.settle(answer or question, is_refused=answer is not None)
        return findings.report()

    def settle_alone(self) -> Report:
        """The report without a database: what is not known counts as a mistake."""
        return self.settle([one for one in self.questions if isinstance(one, UnknownOperator)])

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
    questions: list[Question] = field(default_factory=list)
    _suggestions: int = 0

    def error(self, where: str, what: str, hint: str | None = None) -> None:
        """Something that cannot work."""
        self.errors.append(Finding(where, what, hint))

    def warn(self, where: str, what: str, hint: str | None = None) -> None:
        """Something that has no effect or might be wrong."""
        self.warnings.append(Finding(where, what, hint))

    def warn_unknown(self, where: str, what: str, name: str, valid: Collection[str]) -> None:
        """A name that is none of the valid ones, with the one that was probably meant."""
        nearest = None
        if self._suggestions < _MOST_SUGGESTIONS and len(valid) <= _MOST_NAMES:
            self._suggestions += 1
            nearest = find_nearest(name, valid)
        self.warn(where, what, f"did you mean {nearest}?" if nearest else None)

    def flaws(self, where: str, flaws: Iterable[Flaw]) -> None:
        """The flaws of a template that stands at `where`."""
        for flaw in flaws:
            self.error(join_place(where, flaw.where), flaw.what, flaw.hint)

    def ask(self, where: str, parts: Iterable[UnknownOperator | ConstantPart]) -> None:
        """Leave operators and stages of a template at `where` to the database."""
        self.questions += [replace(one, where=join_place(where, one.where)) for one in parts]

    def settle(self, question: Question, *, is_refused: bool) -> None:
        """Note what the database says to a question."""
        match question:
            case UnknownOperator(where=where, name=name) if is_refused:
                self.error(where, f"MongoDB has no operator {name}", question.hint)
            case UnknownOperator(where=where, name=name):
                self.warn(where, f"docgraph does not know {name}, but this database does")
            case ConstantPart(where=where) if is_refused:
                if not any(error.where.startswith(where) for error in self.errors):
                    self.error(where, CANNOT_RUN, CHECK_ARGUMENTS)
            case Namespace(where=where) if is_refused:
                name = f"{question.db}.{question.collection}"
                self.warn(where, f"there is no collection {name}")
            case Ordering(where=where) if is_refused:
                self.warn(
                    where,
                    "documents with equal keys come in the order of an index, and pages may"
                    " lose or repeat them",
                    f"make an index {question.advice}",
                )

    def report(self) -> Report:
        """What was found."""
        return Report(tuple(self.errors), tuple(self.warnings), tuple(self.questions))


def join_place(where: str, inner: str) -> str:
    """`mappings.User.posts.find` and `author.$arg`, or `…stages` and `[0].$match`."""
    if not inner:
        return where
    return f"{where}{inner}" if inner.startswith("[") else f"{where}.{inner}"
