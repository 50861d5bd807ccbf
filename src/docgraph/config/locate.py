"""Mistakes that are found after decoding, by the parts themselves, told with their place in a file.

A part knows its own section and not where it was written; who has the tree knows that.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Final

from docgraph.config.tree import Tree
from docgraph.exchange.errors import ConfigError, Problem

__all__ = ["CONFIGURATION", "locate", "locating"]

CONFIGURATION: Final = "configuration"  # the origin of what a part complains of in its section


@contextmanager
def locating(tree: Tree) -> Iterator[None]:
    """Let a `ConfigError` from inside name file and line, where its parts could not."""
    try:
        yield
    except ConfigError as error:
        raise ConfigError([locate(problem, tree) for problem in error.problems]) from None


def locate(problem: Problem, tree: Tree) -> Problem:
    """The problem with file and line, where the part that found it could not name them."""
    if problem.origin != CONFIGURATION:
        return problem
    return replace(problem, origin=str(tree.place(problem.path)))
