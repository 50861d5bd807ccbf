"""Options of the command line that answer in plain words."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from docgraph.cli import docgraph


def run(*arguments: str) -> tuple[int, str]:
    done = CliRunner().invoke(docgraph, list(arguments), catch_exceptions=True)
    return done.exit_code, done.output


def test_the_minimal_template_is_short_and_works(tmp_path: Path) -> None:
    code, text = run("config", "template", "--minimal")
    assert code == 0
    assert len(text.splitlines()) <= 12
    file = tmp_path / "docgraph.yml"
    for content in (text, text.replace("  #connection-string", "  connection-string")):
        file.write_text(content)
        assert run("config", "check", str(file))[0] == 0


def test_no_description_of_the_template_speaks_of_python() -> None:
    assert "None" not in run("config", "template")[1]


@pytest.mark.parametrize("port", ["abc", "-1", "65536", "80.5"])
def test_a_wrong_port_is_reported_in_plain_words(port: str) -> None:
    code, output = run("serve", f"--port={port}")

    assert code == 2
    assert f"'{port}' is not a port: give a number from 0 to 65535" in output


def test_a_base_url_with_a_path_needs_the_console_to_be_off(tmp_path: Path) -> None:
    file = tmp_path / "docgraph.yml"
    file.write_text("core: {base-url: 'https://example.org/api'}\n")
    assert run("config", "check", str(file))[0] != 0
    file.write_text(f"{file.read_text()}console: {{enabled: false}}\n")
    assert run("config", "check", str(file))[0] == 0
