"""Help, completion and versions come at once: what takes long to import is not imported."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import click
import pytest

from docgraph.cli import COMMANDS, docgraph
from docgraph.cli.plugins import GROUP
from docgraph.plugins.discover import ENTRY_POINT_GROUP

# Runs several command lines, one after the other, and prints the modules that are there then.
PROGRAM = """
import json, os, sys
from docgraph.cli import main
for line in json.loads(sys.argv[1]):
    sys.argv = ["docgraph", *line]
    try:
        main()
    except SystemExit as stop:
        assert not stop.code, line
print("modules", json.dumps(sorted(sys.modules)))
"""
NOT_FOR_HELP = ("asyncio", "msgspec", "yaml", "orjson", "docgraph.config", "docgraph.plugins")
NEVER = (
    "pymongo",
    "bson",
    "graphql",
    "httptools",
    "wsproto",
    "cryptography",
    "rich",
    "structlog",
    "prometheus_client",
    "jwt",
    "bcrypt",
    "uvloop",
    "docgraph.server",
    "docgraph.store",
    "docgraph.access",
    "docgraph.rest",
    "docgraph.authoring",
)


def run(*lines: tuple[str, ...], cwd: Path, **environment: str) -> tuple[str, set[str]]:
    """What the command lines print, and the modules that they have imported."""
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, json.dumps(lines)],
        cwd=cwd,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    output, _, modules = done.stdout.rpartition("modules ")
    return output, set(json.loads(modules))


def list_commands(command: Any, path: tuple[str, ...] = ()) -> list[tuple[str, ...]]:
    """The path of every command, and of every command in it."""
    if not isinstance(command, click.Group):
        return [path]
    context = click.Context(command)
    found = [path]
    for name in command.list_commands(context):
        below = command.resolve_command(context, [name])[1]
        found += list_commands(below, (*path, name))
    return found


def test_help_and_the_version_need_neither_the_server_nor_the_configuration(
    tmp_path: Path,
) -> None:
    (tmp_path / "docgraph.yml").write_text("core: {workers: 2}")
    output, modules = run(("--help",), ("--version",), ("version",), cwd=tmp_path)

    assert "serve " in output
    assert not modules & {*NOT_FOR_HELP, *NEVER}


def test_completing_the_name_of_a_command_needs_no_more(tmp_path: Path) -> None:
    """The script of the shell asks by variables of the environment."""
    done = subprocess.run(
        [sys.executable, "-X", "importtime", "-m", "docgraph"],
        cwd=tmp_path,
        env={
            **os.environ,
            "_DOCGRAPH_COMPLETE": "bash_complete",
            "COMP_WORDS": "docgraph acc",
            "COMP_CWORD": "1",
        },
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )

    assert done.stdout.split() == ["plain,access"]
    modules = {line.rpartition("|")[2].strip() for line in done.stderr.splitlines()}
    assert "click" in modules
    assert not modules & {*NOT_FOR_HELP, *NEVER}


def test_the_help_of_no_command_needs_the_server(tmp_path: Path) -> None:
    commands = list_commands(docgraph)
    assert ("apps", "apply") in commands

    _, modules = run(*((*path, "--help") for path in commands), cwd=tmp_path)
    assert not modules & set(NEVER)


@pytest.mark.parametrize("name", COMMANDS)
def test_the_list_of_commands_says_what_each_says_of_itself(name: str) -> None:
    context = click.Context(docgraph)
    _, command, _ = docgraph.resolve_command(context, [name])

    assert command is not None
    assert command.name == name
    assert command.get_short_help_str(1000) == COMMANDS[name]


def test_plugins_are_looked_for_in_the_group_that_they_are_loaded_from() -> None:
    assert GROUP == ENTRY_POINT_GROUP


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_script_for_a_shell_asks_docgraph(shell: str, tmp_path: Path) -> None:
    output, _ = run(("completion", shell), cwd=tmp_path)

    assert f"_DOCGRAPH_COMPLETE={shell}_complete" in output
