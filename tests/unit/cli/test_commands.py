"""Mistakes in the name of a command."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import anyio
import msgspec
import pytest
from click.testing import CliRunner

from docgraph.cli import docgraph
from docgraph.cli.apps.stored import Definitions
from docgraph.cli.demo import _invite_to_console
from docgraph.cli.doctor import _join_skipped, _render
from docgraph.console import service as console
from docgraph.exchange import StartupError, Write, WriteKind
from docgraph.exchange.errors import TimeLimitExceeded
from docgraph.graphql.definition.check import Examination
from docgraph.graphql.definition.findings import Namespace, Report
from docgraph.graphql.sections import Graphql
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


def test_the_demo_offers_a_console_only_if_it_is_built(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(console, "STATIC", tmp_path)
    built = console.Manifest("a.js", "a.css", (), frozenset())
    assert "`make console` builds the console" in _invite_to_console("http://host")[0]
    (tmp_path / "manifest.json").write_bytes(msgspec.json.encode(built))
    assert "http://host/console/ask/blog" in _invite_to_console("http://host")[0]


def test_apply_without_enough_time_says_what_to_do() -> None:
    async def write(*_: Any, **__: Any) -> None:
        raise TimeLimitExceeded("the time is used up")

    app: Any = SimpleNamespace(store=SimpleNamespace(writes=SimpleNamespace(write=write)))
    with pytest.raises(StartupError, match="the time is used up") as failed:
        anyio.run(Definitions(app, Graphql()).write, Write(WriteKind.REPLACE, ()))
    assert "more than 120 s: name fewer definitions" in str(failed.value.hint)


def test_apply_does_not_ask_the_database_a_second_time() -> None:
    drafts = SimpleNamespace(examined={})
    checker = SimpleNamespace(drafts=drafts)
    app: Any = SimpleNamespace(plugins=SimpleNamespace(find=lambda _: checker))
    asked = Report(questions=(Namespace("", "db", "collection"),))
    Definitions(app, Graphql()).reuse({"version": Examination(asked)})
    assert drafts.examined == {"version": Examination(Report())}
