"""Passwords and tokens: typed without echo, or read from a file or from stdin.

They are never an argument, which every user of the machine can see.
"""

from __future__ import annotations

import sys
from pathlib import Path

import click

from docgraph.exchange import StartupError

_MAX_BYTES = 4096
_STDIN = Path("-")
SECRET_FILE = click.Path(path_type=Path, allow_dash=True, dir_okay=False)

password_file_option = click.option(
    "--password-file",
    type=SECRET_FILE,
    help="Read the password from the first line of a file; - for stdin.",
)


def is_typed(file: Path | None) -> bool:
    """Return whether it will be typed: then check everything else first."""
    return file is None and sys.stdin.isatty()


def read_secret(file: Path | None, name: str = "password", *, is_new: bool = False) -> str:
    """Read from a file, from stdin, or typed, twice if it is new."""
    if is_typed(file):
        typed: str = click.prompt(
            name.capitalize(), hide_input=True, confirmation_prompt=is_new, err=True
        )
        return typed
    try:
        if file is None or file == _STDIN:
            data = sys.stdin.buffer.read(_MAX_BYTES)
        else:
            with file.open("rb") as source:
                data = source.read(_MAX_BYTES)
        secret = data.decode().split("\n", 1)[0].removesuffix("\r")
    except (OSError, UnicodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "not UTF-8"
        raise StartupError(f"the {name} cannot be read: {reason}") from error
    if not secret:
        raise StartupError(f"the {name} is empty", hint="it is the first line of the input")
    return secret
