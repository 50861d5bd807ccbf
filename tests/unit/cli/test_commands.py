"""Mistakes in the name of a command."""

from __future__ import annotations

import pytest
from click.testing import CliRunner

from docgraph.cli import docgraph


@pytest.mark.parametrize(
    ("typed", "told"),
    [("user", "Did you mean 'users'?"), ("sever", "Did you mean 'serve'?"), ("xyz", "'xyz'.\n")],
)
def test_a_command_that_is_misspelt_is_told_with_the_nearest_one(typed: str, told: str) -> None:
    done = CliRunner().invoke(docgraph, [typed, "list"])

    assert done.exit_code == 2
    assert f"No such command '{typed}'." in done.output
    assert told in done.output
