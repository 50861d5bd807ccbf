"""What only the owner of the project knows: `release.toml`, with addresses that may be empty."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Final

__all__ = ["Release", "read_release"]

FILE: Final = Path(__file__).parent.parent / "release.toml"


@dataclass(frozen=True)
class Release:
    """The author and the addresses that are filled in, and the names of those that are not."""

    author: dict[str, str]
    urls: dict[str, str]
    missing: tuple[str, ...]


def read_release(path: Path = FILE) -> Release:
    """Read the file."""
    content = tomllib.loads(path.read_text(encoding="utf-8"))
    urls: dict[str, str] = content.pop("urls")
    author = {"name": content["maintainer"]}
    if content["email"]:
        author["email"] = content["email"]
    missing = [name for name, value in content.items() if not value]
    missing += [f"urls.{name}" for name, url in urls.items() if not url]
    return Release(author, {name: url for name, url in urls.items() if url}, tuple(missing))
