"""Mappings: how the fields and types of a schema meet the documents of the database."""

from docgraph.graphql.mapping.aggregation import AggregationMapping
from docgraph.graphql.mapping.enum import EnumMapping
from docgraph.graphql.mapping.field import FieldMapping
from docgraph.graphql.mapping.query import DataLoader, QueryMapping
from docgraph.graphql.mapping.type_resolver import TypeResolver

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
