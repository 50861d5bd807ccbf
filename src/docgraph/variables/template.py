"""Templates: mappings with `$arg`, `$fk` and `$ifarg`, compiled once, rendered per fetch.

One compiler serves GraphQL mappings and, with the operators `$var` and `$ifvar`, REST aggregations.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal

from docgraph.runtime import LruDict
from docgraph.variables.compilation import (
    GRAPHQL,
    Compilation,
    Placeholder,
    Position,
    Render,
    Vocabulary,
    decide,
)
from docgraph.variables.compile_expressions import EXPRESSION, NUMBER, PLAIN, SORT, VALUE
from docgraph.variables.compile_stages import STAGES
from docgraph.variables.errors import Flaw, MissingKey, TemplateError
from docgraph.variables.filters import CONDITION, WHOLE_FILTER
from docgraph.variables.paths import VariableName
from docgraph.variables.resolvers import Scope
from docgraph.variables.shapes import StagePart, UnknownOperator
from docgraph.variables.value_marks import MATCH_NOTHING, NO_DOCUMENTS, NOTHING

TemplateContext = Literal[
    "filter", "stages", "sort", "plain", "number", "condition", "value", "expression"
]

_KEPT_DECISIONS = 16
_POSITIONS: Mapping[TemplateContext, Position] = {
    "filter": WHOLE_FILTER,
    "stages": STAGES,
    "sort": SORT,
    "plain": PLAIN,
    "number": NUMBER,
    "condition": CONDITION,
    "value": VALUE,
    "expression": EXPRESSION,
}


@dataclass(frozen=True)
class Template:
    """A compiled value: its source, the names it uses, and its closure.

    `names` are those of `$arg` and `$ifarg` as written (`first`, `@user._id`, `rootDoc.x`),
    `foreign_keys` the paths of `$fk`, `root_paths` those below `rootDoc` (empty: the whole
    document), all in dot notation; `uses` has the locations of all of them. `unknown` has the
    operators of the database that docgraph does not know, `parts` the stages and the conditions of
    filters, `options` the names that optional parts depend on.
    """

    source: Any
    context: TemplateContext
    names: frozenset[str]
    foreign_keys: frozenset[str]
    root_paths: frozenset[str]
    uses: tuple[Placeholder, ...] = field(default=(), repr=False, compare=False)
    vocabulary: Vocabulary = field(default=GRAPHQL, repr=False)
    unknown: tuple[UnknownOperator, ...] = field(default=(), repr=False, compare=False)
    parts: tuple[StagePart, ...] = field(default=(), repr=False, compare=False)
    options: Mapping[str, VariableName] = field(default_factory=dict, repr=False, compare=False)
    _render: Render = field(default=lambda scope: None, repr=False, compare=False)
    _decided: LruDict[frozenset[str], Template] = field(
        default_factory=lambda: LruDict(_KEPT_DECISIONS), repr=False, compare=False
    )

    def render(self, scope: Scope) -> Any:
        """Return the value for this scope.

        Raises `NotBound`, `UnusableValue` or `SecurityViolation`.

        A filter that cannot match is `MATCH_NOTHING` itself (see `matches_nothing`); a single
        condition or value that has no value is `NOTHING`. If the parent lacks a foreign key,
        filters cannot match and stages are `NO_DOCUMENTS` (decision 11).
        """
        try:
            value = self._render(scope)
        except MissingKey:
            return MATCH_NOTHING if self.context == "filter" else NO_DOCUMENTS
        return MATCH_NOTHING if value is NOTHING and self.context == "filter" else value

    @property
    def is_constant(self) -> bool:
        """Whether it renders to its source in every scope."""
        return not self.names and not self.foreign_keys

    @property
    def depends_on_parent(self) -> bool:
        """Whether it may render differently for each parent document."""
        return bool(self.foreign_keys or self.root_paths)

    def given(self, scope: Scope) -> frozenset[str]:
        """Return the names with a value among those that optional parts depend on."""
        return frozenset([name for name, option in self.options.items() if scope.is_bound(option)])

    def decide(self, scope: Scope) -> Template:
        """Return the filter without the optional conditions that this scope leaves out."""
        if not self.options:
            return self
        given = self.given(scope)
        decided = self._decided.get(given)
        if decided is None:
            source = decide(self.source, self.vocabulary.optional, given.__contains__)
            decided = compile_template(source, vocabulary=self.vocabulary, context=self.context)
            self._decided.put(given, decided)
        return decided

    @cached_property
    def conjuncts(self) -> tuple[Template, ...]:
        """The conditions of a filter that must all hold, each a filter of its own."""
        if self.context != "filter":
            raise ValueError("only a filter has conjuncts")
        return tuple(
            compile_template(source, vocabulary=self.vocabulary, context="filter")
            for source in _split(self.source, self.vocabulary)
        )


def _split(source: Any, vocabulary: Vocabulary) -> list[Any]:
    if not isinstance(source, Mapping) or vocabulary.operators & source.keys():
        return [source]
    parts: list[Any] = []
    for key, value in source.items():
        if key == "$and" and isinstance(value, list):
            parts.extend(part for item in value for part in _split(item, vocabulary))
        else:
            parts.append({key: value})
    return parts


def compile_template(
    source: Any, *, vocabulary: Vocabulary = GRAPHQL, context: TemplateContext
) -> Template:
    """Compile; raise `TemplateError` with every flaw and its location inside the template."""
    template, flaws = inspect_template(source, vocabulary=vocabulary, context=context)
    if flaws:
        raise TemplateError(flaws)
    return template


def inspect_template(
    source: Any, *, vocabulary: Vocabulary = GRAPHQL, context: TemplateContext
) -> tuple[Template, list[Flaw]]:
    """Return the template as far as it can be compiled, and its flaws, for checkers."""
    compilation = Compilation(vocabulary, is_relation=context in ("filter", "stages"))
    render: Callable[[Scope], Any] = compilation.build(source, (), _POSITIONS[context])
    template = Template(
        source,
        context,
        frozenset(use.reference.name for use in compilation.uses if use.reference),
        frozenset(compilation.foreign_keys),
        frozenset(compilation.root_paths),
        tuple(compilation.uses),
        vocabulary,
        tuple(compilation.unknown),
        tuple(compilation.list_parts()),
        compilation.options,
        render,
    )
    return template, compilation.flaws
