"""Declared operations (`descriptor.operations`): persisted queries, also tools of agents."""

from __future__ import annotations

import hashlib
import re
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, Final

from graphql import (
    DocumentNode,
    FieldNode,
    FragmentDefinitionNode,
    FragmentSpreadNode,
    GraphQLSchema,
    NonNullTypeNode,
    OperationDefinitionNode,
    OperationType,
    SelectionSetNode,
    VariableDefinitionNode,
    print_ast,
    validate,
)

from docgraph.graphql.definition.findings import Finding
from docgraph.graphql.definition.query_limits import check_limits, parse_query
from docgraph.graphql.errors import OperationRefused
from docgraph.graphql.sections import GraphqlLimits
from docgraph.variables.compilation import describe

MAX_OPERATIONS: Final = 200
_MAX_PATHS: Final = 10_000  # fields that are compared
_DEEPEST: Final = 100
_PLACE: Final = "descriptor.operations"
_KEYS: Final = ("name", "description", "query")
# Short enough for the name of a tool, which includes the name of the app.
_NAME: Final = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,39}")


@dataclass(frozen=True, slots=True)
class DeclaredOperation:
    """A named query; its arguments are the variables of the query."""

    name: str
    description: str
    query: str

    def find_digests(self) -> set[str]:
        """Return the SHA-256 of the text as it is, and with and without a final line break.

        Relay's texts end with a line break, Apollo's do not; YAML files easily add or lose one.
        """
        bare = self.query.strip()
        return {digest_text(text) for text in (self.query, bare, f"{bare}\n")}


def digest_text(text: str) -> str:
    """Return the SHA-256 of a query, which clients send to identify it."""
    return hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()


def read_operations(value: Any, problems: list[Finding]) -> tuple[DeclaredOperation, ...]:
    """Return the operations that have a valid shape; add the mistakes to the problems."""
    if value is None:
        return ()
    if not isinstance(value, list):
        problems.append(Finding(_PLACE, f"must be a list, not {describe(value)}"))
        return ()
    if len(value) > MAX_OPERATIONS:
        problems.append(Finding(_PLACE, f"has more than {MAX_OPERATIONS} operations"))
        return ()
    found: dict[str, DeclaredOperation] = {}
    for number, one in enumerate(value):
        where = f"{_PLACE}.{number}"
        flaws = list(_find_flaws(one, where, found))
        problems += flaws
        if not flaws:
            name = one["name"]
            found[name] = DeclaredOperation(name, one.get("description") or "", one["query"])
    return tuple(found.values())


def _find_flaws(one: Any, where: str, others: Mapping[str, Any]) -> Iterator[Finding]:
    if not isinstance(one, dict):
        yield Finding(where, f"must be an object, not {describe(one)}")
        return
    for key in one.keys() - set(_KEYS):
        yield Finding(f"{where}.{key}", "is not known", f"an operation has {', '.join(_KEYS)}")
    name, description, query = (one.get(key) for key in _KEYS)
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        yield Finding(
            f"{where}.name",
            "must be a name: a letter, then letters, digits and underscores, 40 at most",
        )
    elif name in others:
        yield Finding(f"{where}.name", f"the operation {name!r} is there twice")
    if not (description is None or isinstance(description, str)):
        yield Finding(f"{where}.description", f"must be a string, not {describe(description)}")
    if not isinstance(query, str):
        yield Finding(f"{where}.query", "must be the text of a query")


def check_operations(
    operations: Sequence[DeclaredOperation], schema: GraphQLSchema, limits: GraphqlLimits
) -> Iterator[Finding]:
    """Yield findings for operations that could never run, for any caller."""
    for number, operation in enumerate(operations):
        for what in _find_mistakes(operation.query, schema, limits):
            yield Finding(f"{_PLACE}.{number}.query", what)


def _find_mistakes(query: str, schema: GraphQLSchema, limits: GraphqlLimits) -> Iterator[str]:
    try:
        document = parse_query(query, limits)
        check_limits(document, limits)
    except OperationRefused as refusal:
        yield from (error.message for error in refusal.errors)
        return
    kinds = [
        node.operation for node in document.definitions if isinstance(node, OperationDefinitionNode)
    ]
    if kinds != [OperationType.QUERY]:
        yield "must be one query, and no other operation"
        return
    yield from (error.message for error in validate(schema, document, max_errors=10))


def find_incompatibilities(old: DeclaredOperation, new: DeclaredOperation) -> Iterator[str]:
    """Yield what clients of the old text would miss: its variables, and fields of its response."""
    limits = GraphqlLimits()
    try:
        documents = [parse_query(one.query, limits) for one in (old, new)]
    except OperationRefused:
        return  # an invalid text is reported where it is checked
    before, after = map(_find_variables, documents)
    for name, variable in before.items():
        if name not in after:
            yield f"its variable ${name} was removed"
        elif not _accepts(after[name], variable):
            yield f"its variable ${name} has another type"
    for name, variable in after.items():
        if name not in before and _is_required(variable):
            yield f"its variable ${name} is required"
    paths = [dict.fromkeys(islice(_find_paths(one), _MAX_PATHS)) for one in documents]
    gone = [path for path in paths[0] if path not in paths[1]]
    yield from (f"its field {'.'.join(path)} was removed" for path in gone if path[:-1] not in gone)


def _find_operation(document: DocumentNode) -> OperationDefinitionNode | None:
    nodes = document.definitions
    return next((one for one in nodes if isinstance(one, OperationDefinitionNode)), None)


def _find_variables(document: DocumentNode) -> dict[str, VariableDefinitionNode]:
    operation = _find_operation(document)
    nodes = () if operation is None else operation.variable_definitions or ()
    return {one.variable.name.value: one for one in nodes}


def _is_required(variable: VariableDefinitionNode) -> bool:
    return isinstance(variable.type, NonNullTypeNode) and variable.default_value is None


def _accepts(new: VariableDefinitionNode, old: VariableDefinitionNode) -> bool:
    """Return whether every value of the old variable is one of the new."""
    types = [print_ast(one.type) for one in (old, new)]
    if types[0].removesuffix("!") != types[1].removesuffix("!"):
        return False
    return not _is_required(new) or _is_required(old)


def _find_paths(document: DocumentNode) -> Iterator[tuple[str, ...]]:
    """Yield the paths of the response, in the names that it has there, the short ones first."""
    operation = _find_operation(document)
    nodes = document.definitions
    fragments = {one.name.value: one for one in nodes if isinstance(one, FragmentDefinitionNode)}
    seen: set[tuple[tuple[str, ...], str]] = set()
    queue: deque[tuple[SelectionSetNode | None, tuple[str, ...]]] = deque()
    queue.append((None if operation is None else operation.selection_set, ()))
    while queue:
        selection, path = queue.popleft()
        for one in () if selection is None or len(path) > _DEEPEST else selection.selections:
            if isinstance(one, FieldNode):
                here = (*path, (one.alias or one.name).value)
                yield here
                queue.append((one.selection_set, here))
            elif not isinstance(one, FragmentSpreadNode):
                queue.append((getattr(one, "selection_set", None), path))
            elif (path, one.name.value) not in seen and one.name.value in fragments:
                seen.add((path, one.name.value))
                queue.append((fragments[one.name.value].selection_set, path))
