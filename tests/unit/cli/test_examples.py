"""`docgraph examples` lists what comes along and copies it."""

from __future__ import annotations

import re
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


def test_nothing_that_exists_is_written_over(tmp_path: Path) -> None:
    code, output = run("chat", str(tmp_path))

    assert code == 1
    assert "exists" in output
    assert list(tmp_path.iterdir()) == []


def test_an_unknown_example_is_told_with_those_that_there_are() -> None:
    code, output = run("chatt")

    assert code == 1
    assert "'chatt'" in output
