"""The generated types of a subgraph, with the names and directives that gateways need."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from graphql import DocumentNode

from docgraph.graphql.definition.generated_types import GeneratedTypes
from docgraph.graphql.definition.mapping import AnyMapping, Mappings
from docgraph.graphql.definition.visibility import Follows
from docgraph.graphql.federation.generated_names import find_new_names, restyle
from docgraph.graphql.federation.subgraph import Subgraph


@dataclass(frozen=True, slots=True)
class StyledTypes:
    """The document with the styled types, the new `names`, and what the types follow."""

    document: DocumentNode
    names: Mapping[str, str]
    follows: Follows

    @classmethod
    def of(
        cls, generated: GeneratedTypes, document: DocumentNode, prefix: str, subgraph: Subgraph
    ) -> StyledTypes:
        """Style the generated types of this document, which has them."""
        names = find_new_names(generated.names, prefix)
        follows = {
            (names.get(part[0], part[0]), *part[1:]): frozenset(
                (names.get(type_, type_), field) for type_, field in fields
            )
            for part, fields in generated.follows.items()
        }
        return cls(restyle(document, generated.names, names, subgraph), names, follows)

    def rename(self, mappings: Mappings) -> dict[str, Mapping[str, AnyMapping]]:
        """Return the mappings by the new names."""
        return {self.names.get(name, name): fields for name, fields in mappings.items()}
