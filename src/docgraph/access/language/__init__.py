"""The predicate language of permission rules: the common grammar, with functions on requests."""

from docgraph.access.language.predicate import Predicate, compile_predicate, holds
from docgraph.access.language.view import RequestView

__all__ = ["Predicate", "RequestView", "compile_predicate", "holds"]
