"""Command lines in messages: they name commands that work where docgraph is installed."""

from __future__ import annotations

import re
import shlex
import shutil
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

_NAME: Final = "docgraph"
_QUOTED: Final = re.compile(rf"(?<=[`']){_NAME}(?= [a-z])")
# Options that select the same configuration; `--set` may contain a secret and is not repeated.
_REPEATED: Final = ("-c", "--config", "-o", "--overrides", "--data")
_UNTOLD: Final = "--set"


def own_command() -> str:
    """Return the command that calls the running program: its name, or its path."""
    started, installed = Path(sys.argv[0]), shutil.which(_NAME)
    if started.name == "__main__.py" and started.parent.name == _NAME:
        return _NAME if installed else f"{shlex.quote(sys.orig_argv[0])} -m {_NAME}"
    if (
        started.name != _NAME
        or not started.exists()
        or (installed and Path(installed).samefile(started))
    ):
        return _NAME
    return shlex.quote(str(started))


def name_commands(text: str) -> str:
    """Return the text with each quoted `docgraph …` as it has to be typed here."""
    return _QUOTED.sub(lambda _: own_command(), text) if _QUOTED.search(text) else text


def repeat_options(given: Sequence[str]) -> str:
    """Return the options that another command needs to find the same database."""
    words = list(_pick(given))
    return "".join(f" {shlex.quote(word)}" for word in words) + (
        f" {_UNTOLD} …" if any(_is_option(word, _UNTOLD) for word in given) else ""
    )


def _pick(given: Sequence[str]) -> Iterator[str]:
    for place, word in enumerate(given):
        for name in _REPEATED:
            if word == name:
                yield from given[place : place + 2]
            elif _is_option(word, name):
                yield word


def _is_option(word: str, name: str) -> bool:
    """Return whether the word is that option, alone or with its value."""
    return word == name or word.startswith(f"{name}=" if name.startswith("--") else name)
