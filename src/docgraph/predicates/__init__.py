"""The predicate language; whoever uses it brings the vocabulary."""

from docgraph.predicates.compile import (
    Arguments,
    Parameter,
    Predicate,
    Truth,
    Vocabulary,
    Word,
    bind_arguments,
    compile_predicate,
    compile_tree,
    place_in_order,
)
from docgraph.predicates.parse import parse_predicate
from docgraph.predicates.tokens import PredicateError, Quoted

__all__ = [
    "Arguments",
    "Parameter",
    "Predicate",
    "PredicateError",
    "Quoted",
    "Truth",
    "Vocabulary",
    "Word",
    "bind_arguments",
    "compile_predicate",
    "compile_tree",
    "parse_predicate",
    "place_in_order",
]
