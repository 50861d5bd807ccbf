"""Commands that are packages of their own, found by their entry point."""

from __future__ import annotations

from importlib.metadata import EntryPoints

import click
import pytest
from click.testing import CliRunner

from docgraph.cli import COMMANDS, PACKAGED, docgraph
from docgraph.plugins import packages


@pytest.mark.parametrize("name", PACKAGED)
def test_the_help_of_a_packaged_command_is_that_of_the_list(name: str) -> None:
    command = packages.load_part(packages.COMMANDS, name)
    assert command.get_short_help_str(limit=200) == COMMANDS[name]


@pytest.mark.parametrize("name", PACKAGED)
def test_a_missing_package_is_named_with_the_command_that_installs_it(
    monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setattr(packages, "find_entry_points", lambda group: EntryPoints())
    for arguments in ([name], [name, "--help"], [name, "anything", "--option"]):
        result = CliRunner().invoke(docgraph, arguments)
        error = result.exception
        assert isinstance(error, packages.MissingPackage), result.output
        assert error.exit_code == 2
        assert f"docgraph-{name}" in str(error)
        assert f"pip install 'docgraph[{name}]'" in (error.hint or "")


def test_help_lists_the_commands_that_can_run(monkeypatch: pytest.MonkeyPatch) -> None:
    names = set(docgraph.list_commands(click.Context(docgraph)))
    assert names.issuperset(PACKAGED)
    monkeypatch.setattr("docgraph.cli.plugins.list_packaged_commands", set)
    assert names - set(docgraph.list_commands(click.Context(docgraph))) == set(PACKAGED)
