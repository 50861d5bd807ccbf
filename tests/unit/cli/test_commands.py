"""Mistakes in the name of a command."""

from __future__ import annotations

import pytest
from click.testing import CliRunner

from docgraph.cli import docgraph
from docgraph.cli.doctor import _join_skipped, _render
from docgraph.store.diagnostics import CheckState, Diagnosis


@pytest.mark.parametrize(
    ("typed", "told"),
    [("user", "Did you mean 'users'?"), ("sever", "Did you mean 'serve'?"), ("xyz", "'xyz'.\n")],
)
def test_a_command_that_is_misspelt_is_told_with_the_nearest_one(typed: str, told: str) -> None:
    done = CliRunner().invoke(docgraph, [typed, "list"])

    assert done.exit_code == 2
    assert f"No such command '{typed}'." in done.output
    assert told in done.output


def test_doctor_prints_one_line_for_all_that_was_skipped() -> None:
    skipped = [Diagnosis(one, CheckState.SKIPPED, "not checked") for one in ("login", "version")]
    first = Diagnosis("address", CheckState.WRONG, "no server listens there")
    lines = [line for one in _join_skipped([first, *skipped]) for line in _render(one)]
    assert [line.split() for line in lines] == [
        ["wrong", "address", "no", "server", "listens", "there"],
        ["skipped", "login,", "version:", "not", "checked"],
    ]
