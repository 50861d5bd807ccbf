"""Mappings of lists: `filter` and `orderBy` become arguments of the field (decision 56)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from graphql import GraphQLSchema

from docgraph.graphql.definition.findings import Findings
from docgraph.graphql.definition.generated_types import GeneratedTypes
from docgraph.graphql.definition.mapping import AnyMapping

Mappings = Mapping[str, Mapping[str, AnyMapping]]


def add_lists(
    schema: GraphQLSchema,
    mappings: Mappings,
    source: Mapping[str, Any],
    generated: GeneratedTypes,
    findings: Findings,
) -> Mappings:
    """Return the mappings with their compiled filters and orders; collect the generated types."""
    return mappings
