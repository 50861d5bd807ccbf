"""Query limits (query depth, query complexity), measured before validation (decision 26).

Everything here is linear in the size of the text. A fragment is measured once and its figures are
added up where it is spread, so that fragments which double one another are decided as fast as any
others. Introspection is measured separately: the standard query of GraphiQL is deeper than a query
for data may be.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec
from graphql import (
    DefinitionNode,
    DocumentNode,
    FieldNode,
    FragmentDefinitionNode,
    FragmentSpreadNode,
    GraphQLCompositeType,
    GraphQLError,
    GraphQLNamedType,
    GraphQLOutputType,
    GraphQLSchema,
    InlineFragmentNode,
    IntValueNode,
    OperationDefinitionNode,
    SelectionNode,
    SelectionSetNode,
    TokenKind,
    Visitor,
    get_location,
    get_named_type,
    is_composite_type,
    visit,
)
from graphql.language.parser import Parser

from docgraph.graphql.errors import Classification, OperationRefused, find_locations
from docgraph.graphql.sections import GraphqlLimits

MAX_TEXT = 64 * 1024
MAX_LIST = 1_000  # elements of a list in the variables
MAX_NESTING = 100
MAX_FIELDS = 10_000
MAX_FRAGMENTS = 50
MAX_DIGITS = 400  # of a whole number: a double has 309 at most
INTROSPECTION_DEPTH = 20

_INTROSPECTION = ("__schema", "__type")
_LONG_NUMBER = re.compile(rf"[0-9]{{{MAX_DIGITS + 1}}}")
_BRACKET = re.compile(
    r"""
    " "" (?: \\ " "" | (?! " "" ) . )* " ""    # a block string
    | " (?: \\. | [^"\\\n] )* "                # a string
    | \# [^\n\r]*                              # a comment
    | (?P<open> [({\[] )
    | (?P<close> [)}\]] )
    """,
    re.VERBOSE | re.DOTALL,
)


def replace_limits(limits: GraphqlLimits, own: Mapping[str, int]) -> GraphqlLimits:
    """Return the configured limits, overridden by those of a checked `descriptor.limits`."""
    return msgspec.structs.replace(
        limits, **{name.replace("-", "_"): number for name, number in own.items()}
    )


def parse_query(text: str, limits: GraphqlLimits) -> DocumentNode:
    """Parse within bounds of size, nesting and repetition; raise `OperationRefused`."""
    if len(text) > MAX_TEXT:
        raise _reject_syntax(f"the query text is longer than {MAX_TEXT} characters")
    deep = find_deep_nesting(text)
    if deep is not None:
        raise _reject_syntax(f"the query is nested deeper than {MAX_NESTING} levels", (deep,))
    try:
        document = CountedParser(text, limits.tokens).parse_document()
    except GraphQLError as error:
        raise _reject_syntax(error.message, find_locations(error)) from None
    if _LONG_NUMBER.search(text):  # maybe inside a string, where it is allowed
        visit(document, _LongNumbers())
    return document


class _LongNumbers(Visitor):
    """Reject integers that Python itself would reject with its own message."""

    def enter_int_value(self, node: IntValueNode, *_: Any) -> None:
        if len(node.value) > MAX_DIGITS and node.loc:
            place = get_location(node.loc.source, node.loc.start)
            message = f"a number of the query has more than {MAX_DIGITS} digits"
            raise _reject_syntax(message, ((place.line, place.column),))


def _reject_syntax(message: str, locations: tuple[tuple[int, int], ...] = ()) -> OperationRefused:
    return OperationRefused.because(message, "invalid-syntax", Classification.SYNTAX, locations)


def find_deep_nesting(text: str) -> tuple[int, int] | None:
    """Return line and column of the bracket that is too deep for the recursive parser, if any."""
    depth = 0
    for match in _BRACKET.finditer(text):
        if match["close"]:
            depth -= 1
        elif match["open"]:
            depth += 1
            if depth > MAX_NESTING:
                before = text[: match.start()]
                return before.count("\n") + 1, match.start() - before.rfind("\n")
    return None


@dataclass(frozen=True, slots=True)
class _Measure:
    """Depth and number of fields of a selection set, with its fragments expanded."""

    depth: int = 0
    introspection: int = 0
    fields: int = 0
    roots: int = 0

    def __or__(self, other: _Measure) -> _Measure:
        """Combine the figures of two selection sets on the same level."""
        return _Measure(
            max(self.depth, other.depth),
            max(self.introspection, other.introspection),
            self.fields + other.fields,
            self.roots + other.roots,
        )

    def below(self, name: str) -> _Measure:
        """Return the figures of a field of that name with this selection set."""
        if name in _INTROSPECTION:
            return _Measure(1, max(self.depth, self.introspection) + 1, self.fields + 1, 1)
        return _Measure(self.depth + 1, self.introspection, self.fields + 1, 1)


def check_limits(document: DocumentNode, limits: GraphqlLimits) -> None:
    """Raise `OperationRefused` for the first limit that the document exceeds."""
    fragments = find_fragments(document)
    _check("fragments", len(fragments), MAX_FRAGMENTS)
    aliases, directives = _count(document)
    _check("aliases", aliases, limits.aliases)
    _check("directives", directives, limits.directives)
    measures = _measure_fragments(fragments)
    for node in document.definitions:
        if isinstance(node, OperationDefinitionNode):
            measure = _measure(node.selection_set, measures)
            _check("fields of Query", measure.roots, limits.root_fields)
            _check("levels", measure.depth, limits.depth)
            _check("levels of introspection", measure.introspection, INTROSPECTION_DEPTH)
            _check("fields", measure.fields, MAX_FIELDS)


def find_fragments(document: DocumentNode) -> dict[str, FragmentDefinitionNode]:
    nodes = document.definitions
    return {one.name.value: one for one in nodes if isinstance(one, FragmentDefinitionNode)}


def _check(what: str, count: int, limit: int) -> None:
    if count > limit:
        raise OperationRefused.because(f"the query has more than {limit} {what}", "limit-exceeded")


def _count(document: DocumentNode) -> tuple[int, int]:
    """Count aliases (of `__typename`, too) and directives anywhere in the document."""
    aliases = directives = 0
    for node in document.definitions:
        directives += len(getattr(node, "directives", ()) or ())
        if isinstance(node, OperationDefinitionNode):
            for definition in node.variable_definitions or ():
                directives += len(definition.directives or ())
        for selection in _selections(getattr(node, "selection_set", None)):
            directives += len(selection.directives or ())
            aliases += isinstance(selection, FieldNode) and selection.alias is not None
    return aliases, directives


def _selections(selection_set: SelectionSetNode | None) -> Iterator[SelectionNode]:
    """Yield every selection below, without following fragments."""
    pending = [selection_set]
    while pending:
        current = pending.pop()
        for selection in current.selections if current else ():
            yield selection
            pending.append(getattr(selection, "selection_set", None))


def _measure_fragments(fragments: Mapping[str, FragmentDefinitionNode]) -> dict[str, _Measure]:
    """Measure each fragment after those it spreads; validation rules report a cycle."""
    measures: dict[str, _Measure] = {}
    entered: set[str] = set()
    for first in fragments:
        stack = [first]
        while stack:
            name = stack[-1]
            if name in measures or name not in fragments:
                stack.pop()
                continue
            selection_set = fragments[name].selection_set
            inside = () if name in entered else _selections(selection_set)
            entered.add(name)
            spread = [one.name.value for one in inside if isinstance(one, FragmentSpreadNode)]
            waiting = [other for other in spread if other not in entered]
            if waiting:
                stack.extend(waiting)
            else:
                measures[name] = _measure(selection_set, measures)
                stack.pop()
    return measures


def _measure(selection_set: SelectionSetNode | None, known: Mapping[str, _Measure]) -> _Measure:
    """Measure a selection set; the recursion is as deep as the text, which `parse_query` bounds."""
    total = _Measure()
    for selection in selection_set.selections if selection_set else ():
        match selection:
            case FieldNode():
                inner = _measure(selection.selection_set, known)
                total |= inner.below(selection.name.value)
            case InlineFragmentNode():
                total |= _measure(selection.selection_set, known)
            case FragmentSpreadNode():
                total |= known.get(selection.name.value, _Measure())
    return total


MAX_COMPARISONS = 25_000  # of fields of the same name, each with each, if all are equal


def reject_repetition() -> OperationRefused:
    """Build the error for too many comparisons of fields."""
    return OperationRefused.because(
        "the query selects fields of the same name too often to compare them all",
        "limit-exceeded",
    )


class _ResponseNode:
    """A position in the response: how many fields were written for it, and the positions below."""

    __slots__ = ("below", "count")

    def __init__(self) -> None:
        self.count = 0
        self.below: dict[str | None, _ResponseNode] = {}


class CountedParser(Parser):
    """The parser of graphql-core with limits; raises `OperationRefused` above one.

    It stops where too many fields of the same name would be compared. `measure_merging` counts the
    same in the parsed document and knows more: what named fragments add where they are spread, and
    which fields are equal. This parser counts what one definition writes out by itself, field by
    field. It does not read the rest of a hostile text, or only its tokens where they may be too
    many, which is a third of the work of parsing.
    """

    def __init__(self, text: str, max_tokens: int) -> None:
        super().__init__(text, max_lexical_tokens=max_tokens, allow_empty_selection_sets=False)
        self._place = _ResponseNode()
        self._comparisons_left = MAX_COMPARISONS
        self._may_have_too_many_tokens = len(text) > max_tokens

    def parse_definition(self) -> DefinitionNode:
        """Parse an operation or a fragment: its fields are not compared with those of another."""
        self._place = _ResponseNode()
        return super().parse_definition()

    def parse_field(self) -> FieldNode:
        """Parse a field with everything below it; its key in the response is its alias or name."""
        key, around = self._lexer.token.value, self._place
        place = around.below.get(key)
        if place is None:
            place = around.below[key] = _ResponseNode()
        self._comparisons_left -= place.count
        if self._comparisons_left < 0:
            self._count_tokens_left()
            raise reject_repetition()
        place.count += 1
        self._place = place
        node = super().parse_field()
        self._place = around
        return node

    def _count_tokens_left(self) -> None:
        """Count the remaining tokens: a text with too many is rejected for that alone."""
        while self._may_have_too_many_tokens and self._lexer.token.kind is not TokenKind.EOF:
            self.advance_lexer()


Parent = GraphQLCompositeType | None
Signature = tuple[str, str, GraphQLOutputType | None]


@dataclass(slots=True)
class Merging:
    """The cost of the validation rule that fields can be merged."""

    comparisons: int = 0
    alike: bool = True  # fields of one name have the same arguments and types everywhere


@dataclass(slots=True)
class _Group:
    """The fields of one name at one position of the response."""

    signature: Signature
    count: int = 0
    below: list[tuple[Parent, SelectionSetNode]] = field(default_factory=list)


def measure_merging(schema: GraphQLSchema, document: DocumentNode, most_fields: int) -> Merging:
    """Count the comparisons; stop at more fields than that, which only cyclic fragments have.

    The rule that fields merge compares all fields with the same response key, each with each, and
    does so for everything below them: its cost is the square of what the text repeats. They are
    counted before any is made, in one pass that is linear in the fields written out. The same pass
    detects whether all fields of each name are equal, as in queries that tools generate from many
    fragments: those merge, and the rule has nothing left to find.
    """
    walk = _MergeWalk(schema, find_fragments(document), most_fields)
    for node in document.definitions:
        if isinstance(node, OperationDefinitionNode):
            walk.run(schema.get_root_type(node.operation), node.selection_set)
    return walk.found


@dataclass
class _MergeWalk:
    """Walks from the root down; fields that merge are visited together."""

    _schema: GraphQLSchema
    _fragments: dict[str, FragmentDefinitionNode]
    _fields_left: int
    found: Merging = field(default_factory=Merging)

    def run(self, root: Parent, selection_set: SelectionSetNode) -> None:
        pending = [[(root, selection_set)]]
        while pending:
            for group in self._collect(pending.pop()).values():
                self._fields_left -= group.count
                self.found.comparisons += group.count * (group.count - 1) // 2
                if group.below:
                    pending.append(group.below)
            if self._fields_left < 0:
                self.found.alike = False  # the rules report what is wrong
                return

    def _collect(self, merged: list[tuple[Parent, SelectionSetNode]]) -> dict[str, _Group]:
        """Return the groups of selection sets that are merged; a fragment counts once."""
        groups: dict[str, _Group] = {}
        spread: set[str] = set()
        pending = merged
        while pending:
            parent, selection_set = pending.pop()
            for selection in selection_set.selections:
                match selection:
                    case FieldNode():
                        self._add(groups, parent, selection)
                    case InlineFragmentNode(type_condition=condition):
                        inner = self._find(condition.name.value) if condition else parent
                        pending.append((inner, selection.selection_set))
                    case FragmentSpreadNode():
                        name = selection.name.value
                        fragment = self._fragments.get(name)
                        if fragment is not None and name not in spread:
                            spread.add(name)
                            inner = self._find(fragment.type_condition.name.value)
                            pending.append((inner, fragment.selection_set))
        return groups

    def _find(self, name: str) -> Parent:
        return _composite(self._schema.get_type(name))

    def _add(self, groups: dict[str, _Group], parent: Parent, node: FieldNode) -> None:
        name = node.name.value
        known = self._schema.get_field(parent, name) if parent is not None else None
        type_ = known.type if known is not None else None
        signature = (name, _arguments_text(node), type_)
        key = node.alias.value if node.alias else name
        group = groups.get(key)
        if group is None:
            group = groups[key] = _Group(signature)
        elif group.signature != signature:
            self.found.alike = False
        group.count += 1
        if node.selection_set is not None:
            inner = _composite(get_named_type(type_)) if type_ is not None else None
            group.below.append((inner, node.selection_set))


def _composite(type_: GraphQLNamedType | None) -> Parent:
    return type_ if is_composite_type(type_) else None


def _arguments_text(node: FieldNode) -> str:
    """Return the arguments as written, which is enough to see that they are the same."""
    if not node.arguments:
        return ""
    first, last = node.arguments[0].loc, node.arguments[-1].loc
    return first.source.body[first.start : last.end] if first and last else ""
