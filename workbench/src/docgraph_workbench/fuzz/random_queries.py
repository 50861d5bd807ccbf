"""Random queries: the visible part of an app, and names that are hidden from the caller."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from random import Random
from typing import Any, Final

from graphql import (
    DocumentNode,
    FieldNode,
    FragmentDefinitionNode,
    FragmentSpreadNode,
    GraphQLArgument,
    GraphQLEnumType,
    GraphQLError,
    GraphQLField,
    GraphQLInputObjectType,
    GraphQLInputType,
    GraphQLInterfaceType,
    GraphQLNamedType,
    GraphQLObjectType,
    GraphQLUnionType,
    InlineFragmentNode,
    NameNode,
    OperationDefinitionNode,
    SelectionSetNode,
    VariableNode,
    Visitor,
    get_named_type,
    is_list_type,
    is_non_null_type,
    is_required_argument,
    is_required_input_field,
    parse,
    print_ast,
    visit,
)

from docgraph.tools.apps import App
from docgraph.tools.data import JsonMode, to_json
from docgraph_workbench.fuzz.fuzz_values import KINDS, Guesses, happens

# The upper bound of each kind's share: of queries, where these two allow little variation …
_INTROSPECTING: Final = 0.06
_MISSING: Final = 0.12
# … and of fragments, which are rare.
_INLINE: Final = 0.1
_NAMED: Final = 0.2
_DEEPEST: Final = 4
_DEEPEST_INPUT: Final = 3
_SWEPT: Final = 3  # relations form cycles
_WITH_LITERAL: Final = frozenset({"String", "ID", "Int", "Float"})
_INTROSPECTION: Final = (
    "{ __schema { types { name kind description fields { name description type { name } "
    "args { name defaultValue } } inputFields { name } enumValues { name } } } }",
    "{ __schema { directives { name args { name } } queryType { name } } }",
)
_COMPOSITE = (GraphQLObjectType, GraphQLInterfaceType, GraphQLUnionType)


@dataclass(slots=True)
class Query:
    """The text of a query with its variables."""

    text: str
    variables: dict[str, Any] = field(default_factory=dict)


class QueryMaker:
    """Generates queries for an app, as a caller with some roles might send them."""

    def __init__(
        self, app: App, roles: Iterable[str], random: Random, guesses: Guesses, words: list[Any]
    ) -> None:
        self._app = app
        self._roles = tuple(roles)
        self._view = app.visible_to(self._roles).schema
        hidden = app.visibility.hidden_from(self._roles)
        self._hidden = sorted(part for part in hidden if len(part) == 2)  # noqa: PLR2004 - fields
        self._hidden_arguments = sorted(hidden.difference(self._hidden))
        self._random = random
        self._guesses = guesses
        self._words = words  # strings that documents really have
        self._variables: dict[str, tuple[str, Any]] = {}
        self._fragments: list[str] = []

    def make(self) -> Query:
        """Return a random query."""
        chance = self._random.random()
        if chance < _INTROSPECTING:
            return self._introspect()
        if chance < _MISSING and (self._hidden or self._hidden_arguments):
            return self._miss()
        root = self._view.query_type
        if root is None or not root.fields:
            return Query("{ __typename }")
        count = self._random.choice((1, 1, 2))
        return self._compose(
            lambda: " ".join(self._field(root, position) for position in range(count))
        )

    def sweep(self) -> list[Query]:
        """Return every field of `Query` with everything below it, and with each argument."""
        root = self._view.query_type
        queries = []
        for name, query_field in ({} if root is None else root.fields).items():
            queries.append(
                self._compose(partial(self._render, name, query_field, 0, everything=True))
            )
            queries += [
                self._compose(
                    partial(self._try_argument, name, query_field, argument, is_lucky=is_lucky)
                )
                for argument in query_field.args
                for is_lucky in (True, True, False)
            ]
        return queries

    def _try_argument(self, name: str, field: GraphQLField, tried: str, *, is_lucky: bool) -> str:
        """Return a field with one argument, and those that are required."""
        self._guesses.is_lucky = is_lucky
        given = [
            f"{argument}: {self._value(declared.type)}"
            for argument, declared in field.args.items()
            if argument == tried or is_required_argument(declared)
        ]
        self._guesses.is_lucky = False
        is_composite = isinstance(get_named_type(field.type), _COMPOSITE)
        return f"{name}({', '.join(given)}){' { __typename }' if is_composite else ''}"

    def _compose(self, render: Callable[[], str]) -> Query:
        """Return a whole query around what is rendered, which may use variables and fragments."""
        self._variables, self._fragments = {}, []
        body = render()
        declared = ", ".join(f"${name}: {type_}" for name, (type_, _) in self._variables.items())
        head = f"query Q({declared}) " if declared else ""
        text = " ".join([f"{head}{{ {body} }}", *self._fragments])
        return Query(text, {name: value for name, (_, value) in self._variables.items()})

    def _introspect(self) -> Query:
        names = sorted({owner for owner, _ in self._hidden} or {"Query"})
        about = f'{{ __type(name: "{self._random.choice(names)}") {{ name fields {{ name }} }} }}'
        return Query(self._random.choice((*_INTROSPECTION, about)))

    def _miss(self) -> Query:
        """Return a query for a hidden part by its name, or a similar one: test the rejection."""
        owner, name, *argument = self._random.choice([*self._hidden, *self._hidden_arguments])
        last = argument[0] if argument else name
        if happens(self._random, 0.5):  # a typing mistake
            last = last[:-1] or last
        name = f"{name}({last}: null)" if argument else last
        if owner == "Query":
            return Query(f"{{ {name} }}")
        return Query(f"{{ __typename ... on {owner} {{ {name} }} }}")

    def _field(self, root: GraphQLObjectType, position: int) -> str:
        name = self._random.choice(list(root.fields))
        return f"a{position}: {self._render(name, root.fields[name], 0)}"

    def _render(
        self, name: str, field: GraphQLField, depth: int, *, everything: bool = False
    ) -> str:
        arguments = self._arguments(field.args, everything=everything)
        type_ = get_named_type(field.type)
        if not isinstance(type_, _COMPOSITE):
            return name + arguments
        select = self._select_all if everything else self._select_some
        return f"{name}{arguments} {{ {select(type_, depth + 1)} }}"

    def _select_all(self, type_: GraphQLNamedType, depth: int) -> str:
        if isinstance(type_, GraphQLUnionType):
            return _spread((member.name, self._select_all(member, depth)) for member in type_.types)
        fields = _fields_of(type_, leaves_only=depth >= _SWEPT)
        parts = [
            self._render(name, field, depth, everything=True) for name, field in fields.items()
        ]
        return " ".join(["__typename", *parts])

    def _select_some(self, type_: GraphQLNamedType, depth: int) -> str:
        if isinstance(type_, GraphQLUnionType):
            return _spread(
                (member.name, self._select_some(member, depth)) for member in type_.types
            )
        fields = _fields_of(type_, leaves_only=depth >= _DEEPEST) or {}
        names = list(fields)
        chosen = self._random.choices(names, k=self._random.randint(1, 4)) if names else ()
        parts = [
            f"b{depth}{number}: {self._render(name, fields[name], depth)}"
            for number, name in enumerate(chosen)
        ]
        hidden = [name for owner, name in self._hidden if owner == type_.name]
        if hidden and happens(self._random, 0.1):  # it makes the whole query invalid
            parts.append(self._random.choice(hidden))
        return self._wrap(type_.name, " ".join(parts) or "__typename")

    def _wrap(self, type_name: str, body: str) -> str:
        chance = self._random.random()
        if chance < _INLINE:
            return f"... on {type_name} {{ {body} }}"
        if chance < _NAMED:
            name = f"F{len(self._fragments)}"
            self._fragments.append(f"fragment {name} on {type_name} {{ {body} }}")
            return f"...{name}"
        return body

    def _arguments(self, arguments: dict[str, GraphQLArgument], *, everything: bool) -> str:
        given = [
            f"{name}: {self._value(declared.type)}"
            for name, declared in arguments.items()
            if is_required_argument(declared) or (not everything and happens(self._random, 0.5))
        ]
        return f"({', '.join(given)})" if given else ""

    def _value(self, type_: GraphQLInputType, depth: int = 0) -> str:
        """Return a literal, or a variable for a value without a literal."""
        if is_non_null_type(type_):
            return self._value(type_.of_type, depth)
        if is_list_type(type_):
            return f"[{self._value(type_.of_type, depth)}]"
        match type_:
            case GraphQLEnumType():
                return str(self._random.choice(list(type_.values)))
            case GraphQLInputObjectType():
                share = 0.5 if depth < _DEEPEST_INPUT else 0  # a type may contain itself
                inner = [
                    f"{name}: {self._value(declared.type, depth + 1)}"
                    for name, declared in type_.fields.items()
                    if is_required_input_field(declared) or happens(self._random, share)
                ]
                return f"{{{', '.join(inner)}}}"
        if type_.name == "Boolean":  # type: ignore[union-attr]
            return self._random.choice(("true", "false"))
        kind = KINDS.get(type_.name, "string")  # type: ignore[union-attr]
        if type_.name in _WITH_LITERAL:  # type: ignore[union-attr]
            among = self._words if kind == "string" else ()
            return json.dumps(self._guesses.choose(kind, among))
        name = f"v{len(self._variables)}"
        value = self._guesses.choose(kind)
        self._variables[name] = (str(type_), to_json(value, JsonMode.STANDARD))
        return f"${name}"


def _fields_of(type_: Any, *, leaves_only: bool) -> dict[str, GraphQLField]:
    """Return the fields of an object or interface; without relations below the maximum depth."""
    return {
        name: field
        for name, field in type_.fields.items()
        if not (leaves_only and isinstance(get_named_type(field.type), _COMPOSITE))
    }


def _spread(parts: Iterable[tuple[str, str]]) -> str:
    return " ".join(f"... on {name} {{ {body} }}" for name, body in parts)


def shrink_query(query: Query) -> Iterator[Query]:
    """Yield the query without one part, for each part; the largest parts first."""
    try:
        document = parse(query.text)
    except GraphQLError:
        return
    for position in range(_count(document)):
        smaller = _prune(_Without(position).apply(document))
        text = print_ast(smaller)
        names = _find_variables(smaller)
        variables = {name: value for name, value in query.variables.items() if name in names}
        if " ".join(text.split()) != " ".join(query.text.split()):
            yield Query(" ".join(text.split()), variables)


def _find_variables(document: DocumentNode) -> set[str]:
    """Return the names of the variables that remain."""
    finder = _VariableFinder()
    visit(document, finder)
    return finder.names


class _VariableFinder(Visitor):
    def __init__(self) -> None:
        super().__init__()
        self.names: set[str] = set()

    def enter_variable(self, node: VariableNode, *_: Any) -> None:
        self.names.add(node.name.value)


def _count(document: DocumentNode) -> int:
    counter = _Without(-1)
    counter.apply(document)
    return counter.seen


class _Without:
    """Walks over selections, aliases and arguments, and removes the one with this number."""

    def __init__(self, position: int) -> None:
        self._position = position
        self._fragments: dict[str, Any] = {}
        self.seen = 0

    def apply(self, document: DocumentNode) -> DocumentNode:
        """Return the document without that part."""
        self._fragments = {
            fragment.name.value: fragment.selection_set.selections
            for fragment in document.definitions
            if isinstance(fragment, FragmentDefinitionNode)
        }
        definitions = tuple(
            replace(definition, selection_set=self._cut(definition.selection_set))
            if isinstance(definition, OperationDefinitionNode | FragmentDefinitionNode)
            else definition
            for definition in document.definitions
        )
        return replace(document, definitions=definitions)

    def _cut(self, several: SelectionSetNode) -> SelectionSetNode:
        kept: list[Any] = []
        for selection in several.selections:
            if self._is_next():
                continue
            if isinstance(selection, InlineFragmentNode) and self._is_next():
                kept += selection.selection_set.selections
                continue
            if isinstance(selection, FragmentSpreadNode) and self._is_next():
                kept += self._fragments.get(selection.name.value, ())
                continue
            kept.append(self._cut_inside(selection))
        blank = FieldNode(name=NameNode(value="__typename"), arguments=(), directives=())
        return replace(several, selections=tuple(kept or [blank]))

    def _cut_inside(self, selection: Any) -> Any:
        changes: dict[str, Any] = {}
        if isinstance(selection, FieldNode):
            arguments = tuple(item for item in selection.arguments or () if not self._is_next())
            changes["arguments"] = arguments
            if selection.alias is not None and self._is_next():
                changes["alias"] = None
        if getattr(selection, "selection_set", None) is not None:
            changes["selection_set"] = self._cut(selection.selection_set)
        return replace(selection, **changes) if changes else selection

    def _is_next(self) -> bool:
        self.seen += 1
        return self.seen - 1 == self._position


class _FreshNames(Visitor):
    def __init__(self) -> None:
        super().__init__()
        self.variables: set[str] = set()
        self.fragments: set[str] = set()

    def enter_variable_definition(self, *_: Any) -> Any:
        return self.SKIP

    def enter_variable(self, node: VariableNode, *_: Any) -> None:
        self.variables.add(node.name.value)

    def enter_fragment_spread(self, node: FragmentSpreadNode, *_: Any) -> None:
        self.fragments.add(node.name.value)


def _prune(document: DocumentNode) -> DocumentNode:
    """Return the document without fragments and variables that are no longer used."""
    names = _FreshNames()
    visit(document, names)
    definitions: list[Any] = []
    for definition in document.definitions:
        if (
            isinstance(definition, FragmentDefinitionNode)
            and definition.name.value not in names.fragments
        ):
            continue
        if isinstance(definition, OperationDefinitionNode):
            kept = tuple(
                item
                for item in definition.variable_definitions or ()
                if item.variable.name.value in names.variables
            )
            definition = replace(definition, variable_definitions=kept, name=None)  # noqa: PLW2901 - the same, smaller
        definitions.append(definition)
    return replace(document, definitions=tuple(definitions))
