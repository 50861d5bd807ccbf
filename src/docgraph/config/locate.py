"""File and line of configuration problems, and files that sections name.

A component knows its own section, but not where it was written; the caller with the tree does.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Final

from docgraph.config.config_node import ConfigNode, Origin
from docgraph.config.config_tree import ConfigTree
from docgraph.config.parse import MAX_TEXT, ResolveScalar, parse_yaml, resolve_scalar
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


def read_text(file: Path, option: str) -> str:
    """Return the text of a file; `option` is the one that names it, for errors about all of it."""
    try:
        with file.open(encoding="utf-8") as source:
            return source.read(MAX_TEXT + 1)
    except (OSError, UnicodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "not UTF-8"
        message = f"the file {file} cannot be read: {reason}"
        raise ConfigError([Problem(CONFIGURATION, option, message)]) from error


def load_file(file: Path, option: str, resolve: ResolveScalar = resolve_scalar) -> ConfigNode:
    """Parse a YAML file that an option names."""
    parsed = parse_yaml(
        read_text(file, option),
        lambda line, column: Origin(str(file), line + 1, column + 1),
        resolve=resolve,
    )
    if parsed.node is None or parsed.problems:
        raise ConfigError(parsed.problems)
    return parsed.node
