"""Options that several commands share, and what `config show` makes of them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from docgraph.cli import docgraph
from docgraph.config import ConfigSources


@pytest.fixture(autouse=True)
def alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No configuration but that of the test."""
    monkeypatch.chdir(tmp_path)


def run(*arguments: str) -> Result:
    return CliRunner().invoke(docgraph, arguments)


def show(*arguments: str) -> dict[str, dict[str, Any]]:
    done = run("config", "show", "--json", *arguments)
    assert done.exit_code == 0, done.output
    return {row.pop("path"): row for row in json.loads(done.stdout)}


def test_the_configuration_for_machines_has_values_and_origins_and_no_secrets() -> None:
    Path("docgraph.yml").write_text("core: {workers: 3}\n")
    secret = "mongodb://me:geheim@127.0.0.1/"
    shown = show(f"--set=/mclient/connection-string={secret}")

    assert shown["/core/workers"] == {"value": 3, "origin": "docgraph.yml:1:8"}
    assert shown["/graphql/limits/depth"] == {"value": 15, "origin": "built-in default"}
    assert shown["/mclient/connection-string"]["origin"] == "--set"
    assert "geheim" not in json.dumps(shown)


def test_the_directory_of_the_data_is_relative_to_where_the_command_runs(tmp_path: Path) -> None:
    for name in ("mine", "12", "true", 'a "b": c'):
        assert show("--data", name)["/core/data-directory"]["value"] == str(tmp_path / name)


@pytest.mark.parametrize(
    ("command", "host"),
    [("serve", "docgraph.server.process.host.host"), ("demo", "docgraph.server.prepare.load_tree")],
)
def test_servers_take_a_port(monkeypatch: pytest.MonkeyPatch, command: str, host: str) -> None:
    given: list[Any] = []

    def note(what: Any, **others: Any) -> int:
        given.append(what)
        raise SystemExit(0)

    monkeypatch.setattr(host, note)
    assert run(command, "--port", "8123").exit_code == 0
    (what,) = given
    if isinstance(what, ConfigSources):
        assert "/http-listener/port=8123" in what.settings
    else:
        assert what.find("/http-listener/port").value == 8123


@pytest.mark.parametrize("port", ["65536", "-1", "http"])
def test_a_port_that_is_none_is_a_wrong_call(port: str) -> None:
    done = run("serve", "--port", port)

    assert done.exit_code == 2
    assert "--port" in done.output
