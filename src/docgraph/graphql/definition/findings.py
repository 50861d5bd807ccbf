"""Findings of a definition: errors that reject it, and warnings that the response returns."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field, replace
from typing import Any, Final, NamedTuple

from docgraph.config.nearest import find_nearest
from docgraph.exchange.errors import DefinitionError
from docgraph.store.trials import CANNOT_RUN, CHECK_ARGUMENTS
from docgraph.variables import Flaw, StagePart, UnknownOperator

# More suggestions are not useful, and each one costs a search through all names.
_MAX_SUGGESTIONS: Final = 20
_MAX_NAMES: Final = 500


class TextPosition(NamedTuple):
    """A position in a text: both numbers count from 1."""

    line: int
    column: int


@dataclass(frozen=True, slots=True)
class Finding:
    """An error or a warning: its path in the document, what is wrong, what to do.

    `place` is the position in the text of the part of the definition that `where` begins with.
    """

    where: str
    what: str
    hint: str | None = None
    place: TextPosition | None = field(default=None, compare=False)

    def __str__(self) -> str:
        return f"{self.where}: {self.what}" if self.where else self.what

    def as_dict(self) -> dict[str, Any]:
        return {"where": self.where, "what": self.what, "hint": self.hint}


@dataclass(frozen=True, slots=True)
class Namespace:
    """A collection that a mapping reads."""

    where: str
    db: str
    collection: str


@dataclass(frozen=True, slots=True)
class Ordering:
    """A sort whose ties may have no order; `advice` is the index that gives them one.

    `is_paged`: the ties of a connection have one always, and the index makes it cheap.
    """

    where: str
    db: str
    collection: str
    sort: tuple[tuple[str, Any], ...] = field(hash=False)  # {"$meta": …} is not hashable
    pinned: frozenset[str] = field(default_factory=frozenset)
    is_paged: bool = False
    advice: str = field(default="", compare=False)


@dataclass(frozen=True, slots=True)
class IndexedFields:
    """A field that callers may filter or order by only with an index; `path` is where it is."""

    where: str
    db: str
    collection: str
    name: str
    path: str
    operators: frozenset[str]  # none: an order
    pinned: frozenset[str] = field(default_factory=frozenset)


Question = UnknownOperator | StagePart | Namespace | Ordering | IndexedFields
"""Something that only the database knows: its operators and stages, collections and indexes."""


@dataclass(frozen=True, slots=True)
class Report:
    """All findings (decision 7); `questions` are open until the database has answered them."""

    errors: tuple[Finding, ...] = ()
    warnings: tuple[Finding, ...] = ()
    questions: tuple[Question, ...] = ()

    def resolve(self, refused: Collection[Question]) -> Report:
        """Return the report with the answers of the database: what it rejects or does not have."""
        findings = Findings([*self.errors], [*self.warnings])
        answers = {one: one for one in refused}  # with the advice, which equality ignores
        for question in self.questions:
            answer = answers.get(question)
            findings.resolve(answer or question, is_refused=answer is not None)
        return findings.report()

    def resolve_offline(self) -> Report:
        """Return the report without a database: open questions count as mistakes."""
        return self.resolve([one for one in self.questions if isinstance(one, UnknownOperator)])

    def as_error(self) -> DefinitionError:
        """Return one error for all findings, with a line for each in the message."""
        first, *others = self.errors
        lines = [f"Wrong GraphQL App definition: {first}", *map(str, others)]
        return DefinitionError("\n".join(lines), hint=first.hint, details=[*map(str, self.errors)])


@dataclass(slots=True)
class Findings:
    """Collect the findings while a definition is checked."""

    errors: list[Finding] = field(default_factory=list)
    warnings: list[Finding] = field(default_factory=list)
    questions: list[Question] = field(default_factory=list)
    _suggestions: int = 0

    def error(self, where: str, what: str, hint: str | None = None) -> None:
        """Record something that cannot work."""
        self.errors.append(Finding(where, what, hint))

    def warn(self, where: str, what: str, hint: str | None = None) -> None:
        """Record something that has no effect or might be wrong."""
        self.warnings.append(Finding(where, what, hint))

    def warn_unknown(self, where: str, what: str, name: str, valid: Collection[str]) -> None:
        """Record a name that is not valid, with a suggestion of the one that was probably meant."""
        nearest = None
        if self._suggestions < _MAX_SUGGESTIONS and len(valid) <= _MAX_NAMES:
            self._suggestions += 1
            nearest = find_nearest(name, valid)
        self.warn(where, what, f"did you mean {nearest}?" if nearest else None)

    def flaws(self, where: str, flaws: Iterable[Flaw]) -> None:
        for flaw in flaws:
            self.error(join_place(where, flaw.where), flaw.what, flaw.hint)

    def defer(self, where: str, parts: Iterable[UnknownOperator | StagePart]) -> None:
        """Defer the check of operators and stages of the template to the database."""
        self.questions += [replace(one, where=join_place(where, one.where)) for one in parts]

    def resolve(self, question: Question, *, is_refused: bool) -> None:
        """Record the database's answer to a question."""
        match question:
            case UnknownOperator(where=where, name=name) if is_refused:
                self.error(where, f"MongoDB has no operator {name}", question.hint)
            case UnknownOperator(where=where, name=name):
                self.warn(where, f"docgraph does not know {name}, but this database does")
            case StagePart(where=where) if is_refused:
                if not any(error.where.startswith(where) for error in self.errors):
                    self.error(where, CANNOT_RUN, CHECK_ARGUMENTS)
            case Namespace(where=where) if is_refused:
                name = f"{question.db}.{question.collection}"
                self.warn(where, f"there is no collection {name}")
            case IndexedFields(where=where) if is_refused:
                self.warn(
                    where,
                    f"no index begins with {question.path}: with indexed-only, {question.name}"
                    " cannot be used alone",
                    f"make an index {{{question.path}: 1}}, or remove the field",
                )
            case Ordering(where=where) if is_refused:
                what = "documents with equal keys come in the order of an index, and pages may"
                what += " lose or repeat them"
                if question.is_paged:
                    what = "every page of the connection sorts all that matches: no index of this"
                    what += " order ends with _id"
                self.warn(where, what, f"make an index {question.advice}")

    def report(self) -> Report:
        return Report(tuple(self.errors), tuple(self.warnings), tuple(self.questions))


def join_place(where: str, inner: str) -> str:
    """Join paths: `mappings.User.posts.find` and `author.$arg`, or `…stages` and `[0].$match`."""
    if not inner:
        return where
    return f"{where}{inner}" if inner.startswith("[") else f"{where}.{inner}"
