"""`docgraph examples` lists what comes along and copies it."""

from __future__ import annotations

import re
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from docgraph.cli import docgraph
from docgraph.cli.examples import examples
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


def test_a_copy_has_no_links_that_lead_out_of_it(tmp_path: Path) -> None:
    for path in [*ROOT.glob("examples/*/README.md"), ROOT / "deploy/README.md"]:
        target = tmp_path / path.parent.name
        assert run(path.parent.name, str(target))[0] == 0
        for page in target.rglob("*.md"):
            for link in re.findall(r"\]\((?!https?:|#)([^)#]+)", page.read_text()):
                assert (page.parent / link).resolve().is_relative_to(target), (page, link)
    told = (tmp_path / "deploy/README.md").read_text()
    assert "watch it (`docs/how-to/watch-it.md`)" in told
    assert "](systemd/docgraph.service)" in told


def test_an_example_is_copied_into_an_empty_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)

    assert run("movies", ".") == (0, ".\n")

    assert (tmp_path / "app.json").is_file()


def test_nothing_that_exists_is_overwritten(tmp_path: Path) -> None:
    (tmp_path / "mine.txt").write_text("mine")

    code, output = run("chat", str(tmp_path))

    assert code == 1
    assert "is not empty" in output
    assert [path.name for path in tmp_path.iterdir()] == ["mine.txt"]


@pytest.mark.parametrize("name", ["chat", "plugins", "deploy"])
def test_an_example_without_an_app_has_nothing_to_load(tmp_path: Path, name: str) -> None:
    target = tmp_path / "mine"

    code, output = run(name, str(target), "--load")

    assert code == 1
    assert "nothing to load" in output
    assert not target.exists()


def test_names_of_examples_are_completed() -> None:
    parameters = {one.name: one for one in examples.params}
    found = parameters["name"].shell_complete(click.Context(examples), "p")

    assert [one.value for one in found] == ["paging", "persisted", "plugins"]


def test_an_unknown_example_is_told_with_those_that_there_are() -> None:
    code, output = run("chatt")

    assert code == 1
    assert "'chatt'" in output
