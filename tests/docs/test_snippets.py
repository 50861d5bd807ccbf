"""What stands in code blocks of pages can be read as what it says it is."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import graphql
import pytest
import yaml

from tests.docs.test_examples import PAGES, ROOT, fenced
from tests.process.commands import run

BLOCK = re.compile(r"^( *)```(\w+)\n(.*?)^\1```", re.MULTILINE | re.DOTALL)


def read_json(text: str) -> None:
    """A value, or members of an object as they stand in the middle of one."""
    is_part = re.match(r'\s*"[^"]*":', text)
    json.loads(f"{{{text}}}" if is_part else text)


def read_yaml(text: str) -> None:
    """The text alone: a part of a file may name what stands elsewhere in it (`*tagged`)."""
    assert list(yaml.parse(text))


READERS: dict[str, Callable[[str], object]] = {
    "json": read_json,
    "yaml": read_yaml,
    "python": lambda text: compile(text, "snippet", "exec", dont_inherit=True),
    "graphql": graphql.parse,
}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_code_of_a_page_can_be_read(page: Path) -> None:
    for indent, language, text in BLOCK.findall(page.read_text()):
        if language in READERS:
            READERS[language](re.sub(rf"^{indent}", "", text, flags=re.MULTILINE))


@pytest.mark.usefixtures("preloaded")
@pytest.mark.parametrize("page", ["docs/how-to/go-live.md", "docs/tutorial/your-own-data.md"])
def test_the_configuration_of_a_page_is_fine(page: str, tmp_path: Path) -> None:
    path = tmp_path / "docgraph.yml"
    path.write_text(fenced(page, "yaml")[0])

    checked = run("config", "check", str(path))

    assert checked.returncode == 0, checked.stderr
