"""Declared operations (`descriptor.operations`): persisted queries, also tools of agents."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from graphql import GraphQLSchema, OperationDefinitionNode, OperationType, validate

from docgraph.graphql.definition.findings import Finding
from docgraph.graphql.definition.query_limits import check_limits, parse_query
from docgraph.graphql.errors import OperationRefused
from docgraph.graphql.sections import GraphqlLimits
from docgraph.variables.compilation import describe

__all__ = ["DeclaredOperation", "check_operations", "digest_text", "read_operations"]

MAX_OPERATIONS: Final = 200
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
