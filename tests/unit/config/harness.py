"""A configuration test is: the text of a file, overrides, and what comes of them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from docgraph.config import ConfigSources, ConfigTree, Decoded, Section, decode, load
from docgraph.exchange.errors import ConfigError, Problem
from docgraph.server.prepare import SECTIONS

KEY = "0123456789abcdef0123456789abcdef"


def load_text(
    directory: Path,
    text: str = "",
    *,
    overrides: str = "",
    settings: tuple[str, ...] = (),
) -> ConfigTree:
    """The tree of a `docgraph.yml` with this text."""
    (directory / "docgraph.yml").write_text(text, encoding="utf-8")
    environ = {"DOCGRAPH_OVERRIDES": overrides} if overrides else {}
    return load(ConfigSources(environ=environ, settings=settings, directory=directory), SECTIONS)


def decode_text(
    directory: Path,
    text: str = "",
    *,
    overrides: str = "",
    settings: tuple[str, ...] = (),
    sections: Mapping[str, type[Section]] = SECTIONS,
) -> Decoded:
    """What a file with this text means."""
    return decode(load_text(directory, text, overrides=overrides, settings=settings), sections)


def problems_of(directory: Path, text: str = "", **rest: object) -> tuple[Problem, ...]:
    """The mistakes of a file with this text."""
    with pytest.raises(ConfigError) as caught:
        decode_text(directory, text, **rest)  # type: ignore[arg-type]
    return caught.value.problems


def messages_of(directory: Path, text: str = "", **rest: object) -> list[str]:
    """The same as lines."""
    return [str(problem) for problem in problems_of(directory, text, **rest)]
