"""The predicate language; whoever uses it brings the vocabulary."""

from docgraph.predicates.compile import (
    Arguments,
    Parameter,
    Predicate,
    Vocabulary,
    Word,
    compile_predicate,
)
from docgraph.predicates.parse import parse_predicate
from docgraph.predicates.tokens import PredicateError

__all__ = [
    "Arguments",
    "Parameter",
    "Predicate",
    "PredicateError",
    "Vocabulary",
    "Word",
    "compile_predicate",
    "parse_predicate",
]
