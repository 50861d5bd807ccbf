"""Schema of an app: the author's SDL, with the BSON scalars and `@visible` predeclared.

Positions in messages refer to the author's own text: the predeclared part is not counted.

Validation takes bounded time: the GraphQL rules stop at the first few dozen errors. graphql-core
finds the line of each error by scanning the text, and searches all names for a suggestion, so that
a schema full of mistakes would take hours. Checking that types satisfy their interfaces compares
each with each: the number of comparisons is limited.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Sequence
from contextlib import suppress
from copy import copy
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice
from typing import Final

from graphql import (
    DirectiveDefinitionNode,
    DirectiveLocation,
    DocumentNode,
    ExecutableDefinitionNode,
    GraphQLArgument,
    GraphQLDirective,
    GraphQLError,
    GraphQLList,
    GraphQLNonNull,
    GraphQLObjectType,
    GraphQLSchema,
    GraphQLString,
    InterfaceTypeDefinitionNode,
    InterfaceTypeExtensionNode,
    ListValueNode,
    Node,
    ObjectTypeDefinitionNode,
    ObjectTypeExtensionNode,
    OperationType,
    ParallelVisitor,
    ScalarTypeDefinitionNode,
    SchemaDefinitionNode,
    SchemaExtensionNode,
    StringValueNode,
    TypeDefinitionNode,
    extend_schema,
    parse,
    specified_directives,
    specified_scalar_types,
    visit,
)
from graphql.language.ast import QUERY_DOCUMENT_KEYS
from graphql.type.validate import SchemaValidationContext
from graphql.validation.specified_rules import specified_sdl_rules
from graphql.validation.validation_context import SDLValidationContext

from docgraph.codec.forms import JsonMode
from docgraph.config.nearest import find_nearest
from docgraph.graphql.definition.findings import Finding, TextPosition
from docgraph.graphql.definition.query_limits import MAX_NESTING, find_deep_nesting
from docgraph.graphql.definition.scalars import BSON_SCALARS, PLAIN_BSON_SCALARS
from docgraph.graphql.definition.standard_scalars import replace_standard
from docgraph.graphql.federation.subgraph import Subgraph, read_subgraph, suggest

MAX_ERRORS: Final = 50
_LONG_TEXT: Final = 16_384  # a longer text gets no suggestions of similar names

# No rule for definitions concerns a name or a description, which are half of the nodes.
_RULED_KEYS: Final = {
    kind: tuple(key for key in keys if key not in ("name", "description"))
    for kind, keys in QUERY_DOCUMENT_KEYS.items()
}

_Implementing = (
    InterfaceTypeDefinitionNode
    | InterfaceTypeExtensionNode
    | ObjectTypeDefinitionNode
    | ObjectTypeExtensionNode
)


class _Enough(Exception):
    """Raised to stop validation after enough errors."""


def find_sdl_errors(document: DocumentNode, base: GraphQLSchema) -> list[GraphQLError]:
    """Return violations of the rules for definitions that extend `base`, up to `MAX_ERRORS`."""
    errors: list[GraphQLError] = []

    def collect(error: GraphQLError) -> None:
        errors.append(error)
        if len(errors) >= MAX_ERRORS:
            raise _Enough

    context = _SdlContext(document, base, collect)
    rules = [rule(context) for rule in specified_sdl_rules]
    with suppress(_Enough):
        visit(document, ParallelVisitor(rules), _RULED_KEYS)
    return errors


def find_schema_errors(schema: GraphQLSchema) -> list[GraphQLError]:
    """Return where types contradict each other, up to `MAX_ERRORS`."""
    context = _SchemaContext(schema)
    with suppress(_Enough):
        context.validate_root_types()
        context.validate_directives()
        context.validate_types()
    return context.errors


def count_comparisons(document: DocumentNode) -> int:
    """Count the comparisons needed to check that types satisfy their interfaces."""
    above: dict[str, int] = defaultdict(int)  # interfaces of each type
    promised: dict[str, int] = defaultdict(int)  # fields and arguments of each type
    owners = [node for node in document.definitions if isinstance(node, _Implementing)]
    for node in owners:
        above[node.name.value] += len(node.interfaces or ())
        fields = node.fields or ()
        promised[node.name.value] += sum(1 + len(field.arguments or ()) for field in fields)
    return sum(
        promised.get(one.name.value, 0) + above.get(one.name.value, 0) * above[node.name.value]
        for node in owners
        for one in node.interfaces or ()
    )


class _SdlContext(SDLValidationContext):
    @property
    def hide_suggestions(self) -> bool:
        """Whether suggestions of similar names are left out."""
        place = self.document.loc
        return place is not None and place.end > _LONG_TEXT


class _SchemaContext(SchemaValidationContext):
    def report_error(
        self, message: str, nodes: Node | Collection[Node | None] | None = None
    ) -> None:
        """Record the error with its first location: the others are not reported."""
        if nodes and not isinstance(nodes, Node):
            nodes = [next((node for node in nodes if node), None)]
        super().report_error(message, nodes)
        if len(self.errors) >= MAX_ERRORS:
            raise _Enough


MAX_TEXT = 4 * 1024 * 1024
# Ten thousand types; the garbage collector scans all of them without interruption.
MAX_TOKENS = 100_000
MAX_COMPARISONS = 2_000_000
_KEPT_TEXTS = 2  # the largest take 35 MB each

VISIBLE = GraphQLDirective(
    "visible",
    [
        DirectiveLocation.FIELD_DEFINITION,
        DirectiveLocation.ARGUMENT_DEFINITION,
        DirectiveLocation.INPUT_FIELD_DEFINITION,
    ],
    {"roles": GraphQLArgument(GraphQLNonNull(GraphQLList(GraphQLNonNull(GraphQLString))))},
    description="Hides a field or an argument from callers who have none of the roles.",
)

LIVE = GraphQLDirective(
    "live",
    [DirectiveLocation.QUERY],
    description="Sends the answer again whenever it has changed.",
)

_BASE, _PLAIN_BASE = (
    GraphQLSchema(types=list(scalars.values()), directives=[*specified_directives, VISIBLE])
    for scalars in (BSON_SCALARS, PLAIN_BSON_SCALARS)
)
_PREDECLARED = (
    "Directive '@visible' ",
    *(f"Type '{name}' already exists" for name in (*BSON_SCALARS, *specified_scalar_types)),
)
_UNKNOWN_DIRECTIVE = "Unknown directive '@"

FIELD_OWNERS = (
    ObjectTypeDefinitionNode,
    ObjectTypeExtensionNode,
    InterfaceTypeDefinitionNode,
    InterfaceTypeExtensionNode,
)


class SchemaError(ValueError):
    """An invalid schema, with everything found wrong in it."""

    def __init__(self, findings: Sequence[Finding]) -> None:
        super().__init__(str(findings[0]))
        self.findings = tuple(findings)


@dataclass(frozen=True, slots=True)
class _Mistake:
    node: Node
    what: str
    hint: str | None = None


def parse_schema(text: str) -> DocumentNode:
    """Parse and check the author's definitions; raise `SchemaError`.

    The last ones are cached: what is checked, written and then compiled is the same text.
    """
    # A stored text may be of BSON's type `Code`.
    return _parse_schema(str(text))


def parse_subgraph(text: str) -> tuple[DocumentNode, Subgraph]:
    """Parse and check definitions like `parse_schema`, and add the declarations of federation."""
    return _parse_subgraph(str(text))


@lru_cache(maxsize=_KEPT_TEXTS)
def _parse_schema(text: str) -> DocumentNode:
    document = parse_text(text)
    _reject_mistakes(document)
    return document


@lru_cache(maxsize=_KEPT_TEXTS)
def _parse_subgraph(text: str) -> tuple[DocumentNode, Subgraph]:
    document = parse_text(text)
    subgraph, flaws = read_subgraph(document)
    document = subgraph.extend(document)
    _reject_mistakes(document, subgraph, [_Mistake(*flaw) for flaw in flaws])
    return document, subgraph


def _reject_mistakes(
    document: DocumentNode, subgraph: Subgraph | None = None, flaws: Sequence[_Mistake] = ()
) -> None:
    mistakes = [*flaws, *islice(_find_mistakes(document, subgraph), MAX_ERRORS)]
    findings = [_finding_of(GraphQLError(one.what, one.node), one.hint) for one in mistakes]
    # predeclared names were checked before, with clearer messages
    findings += [
        _finding_of(error, subgraph=subgraph)
        for error in find_sdl_errors(document, _BASE)
        if not error.message.startswith(_PREDECLARED)
    ]
    if count_comparisons(document) > MAX_COMPARISONS:
        findings.append(Finding("schema", "its types implement too many interfaces and fields"))
    if findings:
        raise SchemaError(findings)


def build_schema(document: DocumentNode, mode: JsonMode = JsonMode.GRAPHQL) -> GraphQLSchema:
    """Build the schema of checked definitions; raise `SchemaError` where it contradicts itself."""
    try:
        schema = extend_base(document, mode)
        errors = find_schema_errors(schema)
    except RecursionError:
        raise SchemaError([Finding("schema", "too many types lead from one to the next")]) from None
    if errors:
        raise SchemaError([_finding_of(error) for error in errors])
    return schema


def extend_base(document: DocumentNode, mode: JsonMode) -> GraphQLSchema:
    """Build the schema of the predeclared part in that mode and these definitions.

    graphql-core takes it for valid: `find_schema_errors` checks it once, and no query again.
    """
    base = _PLAIN_BASE if mode is JsonMode.GRAPHQL_PLAIN else _BASE
    extended = extend_schema(base, document, assume_valid=True)
    schema = copy(base) if extended is base else extended  # with no definitions it is the base
    replace_standard(schema)
    query = schema.type_map.get("Query")
    schema.query_type = query if isinstance(query, GraphQLObjectType) else None
    return schema


def declare_live(schema: GraphQLSchema, *, is_declared: bool) -> GraphQLSchema:
    """Return the schema with the directive `@live`, or without it."""
    others = [one for one in schema.directives if one is not LIVE]
    if (len(others) < len(schema.directives)) is is_declared:
        return schema
    settings = schema.to_kwargs()
    settings["directives"] = (*others, LIVE) if is_declared else tuple(others)
    settings["assume_valid"] = True
    return GraphQLSchema(**settings)


def check_live(schema: GraphQLSchema) -> Iterator[Finding]:
    """Yield a finding if the author declares a directive `@live`, which an app with it has."""
    if any(one.name == LIVE.name for one in schema.directives):
        yield Finding("schema", "@live is predeclared with descriptor.live", "rename the directive")


def parse_text(text: str) -> DocumentNode:
    """Parse definitions without checking what they mean; raise `SchemaError`."""
    if len(text) > MAX_TEXT:
        raise SchemaError([Finding("schema", f"longer than {MAX_TEXT} characters")])
    deep = find_deep_nesting(text)
    if deep is not None:
        raise SchemaError([_finding_at(deep, f"nested deeper than {MAX_NESTING} levels")])
    try:
        return parse(text, max_lexical_tokens=MAX_TOKENS)
    except GraphQLError as error:
        raise SchemaError([_finding_of(error)]) from None


def _finding_of(
    error: GraphQLError, hint: str | None = None, *, subgraph: Subgraph | None = None
) -> Finding:
    place = error.locations[0] if error.locations else None
    what = error.message.rstrip(".")
    hint = hint or _suggest_directive(what, subgraph)
    return _finding_at((place.line, place.column) if place else None, what, hint)


def _suggest_directive(what: str, subgraph: Subgraph | None) -> str | None:
    """Return the directive that was probably meant: graphql-core suggests types and fields only."""
    if not what.startswith(_UNKNOWN_DIRECTIVE):
        return None
    name = what.removeprefix(_UNKNOWN_DIRECTIVE).rstrip("'")
    if subgraph is not None:
        return suggest(subgraph, name)
    nearest = find_nearest(name, [one.name for one in _BASE.directives])
    return f"did you mean @{nearest}?" if nearest else None


def _finding_at(place: tuple[int, int] | None, what: str, hint: str | None = None) -> Finding:
    if place is None:
        return Finding("schema", what, hint)
    where = f"schema (line {place[0]}, column {place[1]})"
    return Finding(where, what, hint, TextPosition(*place))


def _find_mistakes(document: DocumentNode, subgraph: Subgraph | None) -> Iterator[_Mistake]:
    """Yield mistakes that the GraphQL rules allow, or report in words that do not help."""
    names = set()
    for node in document.definitions:
        if subgraph is not None and node.loc is None:  # declared by the specification
            continue
        if isinstance(node, ExecutableDefinitionNode):
            yield _Mistake(node, "a schema cannot contain an operation or fragment")
        elif isinstance(node, TypeDefinitionNode):
            names.add(node.name.value)
            yield from _find_type_mistakes(node)
        elif isinstance(node, DirectiveDefinitionNode) and node.name.value == VISIBLE.name:
            yield _Mistake(node, "@visible is predeclared", "remove its declaration")
        elif isinstance(node, SchemaDefinitionNode | SchemaExtensionNode):
            yield from _find_root_mistakes(node)
        yield from _find_visible_mistakes(node)
    if "Query" not in names:
        yield _Mistake(document, "there is no type Query", "declare `type Query { … }`")


def _find_type_mistakes(node: TypeDefinitionNode) -> Iterator[_Mistake]:
    name = node.name.value
    if name in BSON_SCALARS:
        yield _Mistake(node, f"{name} is predeclared", "remove its declaration")
    elif name in specified_scalar_types:
        yield _Mistake(node, f"{name} is a type of GraphQL itself and cannot be declared")
    elif isinstance(node, ScalarTypeDefinitionNode):
        known = ", ".join(sorted(BSON_SCALARS))
        yield _Mistake(node, f"the scalar {name} is not known", f"predeclared are {known}")
    elif name in ("Mutation", "Subscription"):
        yield _Mistake(node, f"the service is read-only: a type {name} is not allowed")
    elif name == "Query" and not isinstance(node, ObjectTypeDefinitionNode):
        yield _Mistake(node, "Query must be an object type")


def _find_root_mistakes(node: SchemaDefinitionNode | SchemaExtensionNode) -> Iterator[_Mistake]:
    for root in node.operation_types or ():
        kind, name = root.operation, root.type.name.value
        if kind is not OperationType.QUERY:
            yield _Mistake(root, f"the service is read-only: a {kind.value} type is not allowed")
        elif name != "Query":
            yield _Mistake(root, f"the query type must be Query, not {name}", "rename the type")


def _find_visible_mistakes(definition: Node) -> Iterator[_Mistake]:
    for node, can_be_hidden in _directive_bearers(definition):
        for directive in getattr(node, "directives", None) or ():
            if directive.name.value != VISIBLE.name:
                continue
            if not can_be_hidden:
                what = "@visible is allowed only on fields, their arguments, and input fields"
                yield _Mistake(directive, what)
                continue
            for argument in directive.arguments or ():
                if argument.name.value == "roles" and not is_list_of_strings(argument.value):
                    yield _Mistake(argument, "the roles of @visible must be a list of strings")


def _directive_bearers(definition: Node) -> Iterator[tuple[Node, bool]]:
    """Yield the parts that can have directives, and whether `@visible` can hide them."""
    yield definition, False
    for field in getattr(definition, "fields", None) or ():
        yield field, True
        yield from ((argument, True) for argument in getattr(field, "arguments", None) or ())
    for value in getattr(definition, "values", None) or ():
        yield value, False
    if isinstance(definition, DirectiveDefinitionNode):
        yield from ((argument, False) for argument in definition.arguments or ())


def is_list_of_strings(node: Node) -> bool:
    """Return whether this is a list of strings; a single string counts as a list of one."""
    items = node.values if isinstance(node, ListValueNode) else (node,)
    return all(isinstance(item, StringValueNode) for item in items)
