"""Mappings: how the fields and types of a schema meet the documents of the database."""

from docgraph.graphql.definition.mapping.aggregation import AggregationMapping
from docgraph.graphql.definition.mapping.enum import EnumMapping
from docgraph.graphql.definition.mapping.field import FieldMapping
from docgraph.graphql.definition.mapping.query import DataLoader, QueryMapping
from docgraph.graphql.definition.mapping.type_resolver import TypeResolver

__all__ = [
    "AggregationMapping",
    "AnyMapping",
    "DataLoader",
    "EnumMapping",
    "FieldMapping",
    "QueryMapping",
    "TypeResolver",
]

AnyMapping = FieldMapping | QueryMapping | AggregationMapping
