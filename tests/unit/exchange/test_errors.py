"""The tree of errors: every one has a status and a code of its own, listed in the docstring."""

import re
from collections.abc import Iterator
from typing import Any

from docgraph.exchange import errors
from docgraph.exchange.errors import (
    ConfigError,
    DocgraphError,
    MethodNotAllowed,
    Problem,
)
from tests.expect import present


def all_errors(root: Any = DocgraphError) -> Iterator[Any]:
    """Those of the tree itself; packages may have finer ones of their own below them."""
    for child in root.__subclasses__():
        if child.__module__ == errors.__name__:
            yield child
            yield from all_errors(child)


def test_the_table_at_the_top_lists_every_error_with_status_and_code() -> None:
    rows = dict(re.findall(r"── (\w+) +(\d+  \S+)", errors.__doc__))
    assert rows == {error.__name__: f"{error.status}  {error.code}" for error in all_errors()}


def test_no_two_errors_declare_the_same_code() -> None:
    declared = [error for error in all_errors() if "code" in vars(error)]
    codes = [error.code for error in declared]
    assert len(codes) == len(set(codes))


def test_method_not_allowed_names_the_methods_that_are() -> None:
    error = MethodNotAllowed("PUT", ["GET", "HEAD"])
    assert ("Allow", "GET, HEAD") in error.headers
    assert "GET, HEAD" in present(error.hint)


def test_a_configuration_error_prints_every_problem() -> None:
    error = ConfigError(
        [
            Problem("a.yml:1:2", "/x", "unknown section", "did you mean 'y'?"),
            Problem("--set", "/z", "expected a number"),
        ]
    )
    assert str(error).splitlines() == [
        "a.yml:1:2: /x: unknown section (did you mean 'y'?)",
        "--set: /z: expected a number",
    ]
