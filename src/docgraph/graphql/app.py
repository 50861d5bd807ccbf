"""An app, ready to answer: the schema, the compiled mappings, and who sees which part of it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from graphql import GraphQLSchema

from docgraph.graphql.definition import AppDefinition
from docgraph.graphql.limits import Limits
from docgraph.graphql.mapping import AnyMapping, EnumMapping, TypeResolver

__all__ = ["App", "VisibleApp"]


@dataclass(frozen=True, eq=False)
class App:
    """`mappings` by type and field; every field of an object type but Query has one."""

    definition: AppDefinition
    schema: GraphQLSchema
    mappings: Mapping[str, Mapping[str, AnyMapping]]
    enums: Mapping[str, EnumMapping]
    type_resolvers: Mapping[str, TypeResolver]
    limits: Limits

    @property
    def version(self) -> str:
        """Changes whenever the definition does."""
        return self.definition.version

    def visible_to(self, roles: Iterable[str]) -> VisibleApp:
        """The app as a caller with these roles sees it; built once per set of roles that matter."""
        raise NotImplementedError


@dataclass(frozen=True, eq=False)
class VisibleApp:
    """An app with the schema that some callers see; `key` are those of their roles that matter."""

    app: App
    schema: GraphQLSchema
    key: frozenset[str] = field(default_factory=frozenset)

    @property
    def definition(self) -> AppDefinition:
        return self.app.definition

    @property
    def mappings(self) -> Mapping[str, Mapping[str, AnyMapping]]:
        return self.app.mappings

    @property
    def enums(self) -> Mapping[str, EnumMapping]:
        return self.app.enums

    @property
    def type_resolvers(self) -> Mapping[str, TypeResolver]:
        return self.app.type_resolvers

    @property
    def limits(self) -> Limits:
        return self.app.limits
