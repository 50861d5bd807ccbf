"""The predicate language; each user of it supplies the vocabulary."""

from docgraph.predicates.compile import (
    Arguments,
    Parameter,
    Predicate,
    PredicateWord,
    Truth,
    Vocabulary,
    bind_arguments,
    compile_predicate,
    compile_tree,
    place_in_order,
)
from docgraph.predicates.parse import PredicateError, Quoted, parse_predicate

__all__ = [
    "Arguments",
    "Parameter",
    "Predicate",
    "PredicateError",
    "PredicateWord",
    "Quoted",
    "Truth",
    "Vocabulary",
    "bind_arguments",
    "compile_predicate",
    "compile_tree",
    "parse_predicate",
    "place_in_order",
]
