"""`docgraph examples` lists what comes along and copies it."""

from __future__ import annotations

from pathlib import Path

from click.testing import CliRunner

from docgraph.cli import docgraph
from tests.process.commands import ROOT


def run(*arguments: str) -> tuple[int, str]:
    done = CliRunner().invoke(docgraph, ["examples", *arguments], catch_exceptions=True)
    return done.exit_code, done.output + str(done.exception or "")


def test_every_example_is_listed_with_what_it_is() -> None:
    code, output = run()

    assert code == 0
    rows = dict(line.split(maxsplit=1) for line in output.splitlines())
    expected = {path.parent.name for path in ROOT.glob("examples/*/README.md")}
    assert set(rows) == expected | {"deploy"}
    assert rows["agents"] == "A small shop for an agent"


def test_an_example_is_copied_into_a_new_directory(tmp_path: Path) -> None:
    target = tmp_path / "mine"

    assert run("chat", str(target)) == (0, f"{target}\n")
    assert (target / "plugins/chat.py").read_bytes() == (
        ROOT / "examples/chat/plugins/chat.py"
    ).read_bytes()


def test_nothing_that_exists_is_written_over(tmp_path: Path) -> None:
    code, output = run("chat", str(tmp_path))

    assert code == 1
    assert "exists" in output
    assert list(tmp_path.iterdir()) == []


def test_an_unknown_example_is_told_with_those_that_there_are() -> None:
    code, output = run("chatt")

    assert code == 1
    assert "'chatt'" in output
