"""What plugin authors may import is there, and is what type checkers are told it is."""

from __future__ import annotations

import ast
from importlib import import_module
from pathlib import Path

import pytest

import docgraph


def read_homes() -> dict[str, str]:
    """Each export with the module that type checkers see it come from."""
    tree = ast.parse(Path(docgraph.__file__).read_text())
    told = [node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) and node.module]
    return {
        alias.name: node.module or ""
        for node in told
        if (node.module or "").startswith("docgraph.")
        for alias in node.names
    }


def test_every_export_is_the_one_that_type_checkers_know() -> None:
    homes = read_homes()

    assert {*homes, "__version__"} == set(docgraph.__all__)
    for name, home in homes.items():
        assert getattr(docgraph, name) is getattr(import_module(home), name)
    assert set(docgraph.__all__) <= set(dir(docgraph))


def test_nothing_else_is_exported() -> None:
    with pytest.raises(AttributeError, match="has no attribute 'Nonsense'"):
        getattr(docgraph, "Nonsense")  # noqa: B009 - as a program would
