"""File and line of configuration problems that are found after decoding.

A component knows its own section, but not where it was written; the caller with the tree does.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Final

from docgraph.config.config_tree import ConfigTree
from docgraph.exchange.errors import ConfigError, Problem

CONFIGURATION: Final = "configuration"  # the origin of problems that components report


@contextmanager
def locating(tree: ConfigTree) -> Iterator[None]:
    """Add file and line to a `ConfigError` from this block, where they are missing."""
    try:
        yield
    except ConfigError as error:
        raise ConfigError([locate(problem, tree) for problem in error.problems]) from None


def locate(problem: Problem, tree: ConfigTree) -> Problem:
    """Return the problem with file and line, where they are missing."""
    if problem.origin != CONFIGURATION:
        return problem
    return replace(problem, origin=str(tree.place(problem.path)))
