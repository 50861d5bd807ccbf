"""Mistakes that parts find in their sections are told with file and line."""

from __future__ import annotations

from pathlib import Path

import pytest

from docgraph.config import ConfigSources, load
from docgraph.config.sources import CONFIGURATION, locating
from docgraph.exchange import ConfigError, Problem


def locate(tmp_path: Path, problem: Problem) -> str:
    file = tmp_path / "docgraph.yml"
    file.write_text("core:\n  name: x\nsome:\n  users:\n    - {a: 1}\n    - b: 2\n      roles: 3\n")
    tree = load(ConfigSources(file=file, environ={}, directory=tmp_path))
    with pytest.raises(ConfigError) as caught, locating(tree):
        raise ConfigError([problem])
    (found,) = caught.value.problems
    return found.origin.removeprefix(f"{tmp_path}/")


@pytest.mark.parametrize(
    ("path", "place"),
    [
        ("/some/users[2]/roles", "docgraph.yml:7:7"),
        ("/some/users[2]/absent", "docgraph.yml:6:7"),
        ("/some/users[1]", "docgraph.yml:5:7"),
        ("/other/option", "built-in default"),
    ],
)
def test_the_nearest_thing_that_somebody_wrote_is_blamed(
    tmp_path: Path, path: str, place: str
) -> None:
    assert locate(tmp_path, Problem(CONFIGURATION, path, "wrong")) == place


def test_a_place_that_is_known_stays(tmp_path: Path) -> None:
    assert locate(tmp_path, Problem("users.yml:3:1", "/core/name", "wrong")) == "users.yml:3:1"
