"""Print the password of the first administrator: once, on stderr, and nowhere else.

On a terminal it is the last output, in a frame; otherwise it is in lines that a program can parse.
"""

from __future__ import annotations

import sys
from typing import Final, NamedTuple

from docgraph.exchange.program import own_command, repeat_options

_WIDTH: Final = 58  # minimum width of the text in the frame


class _Box(NamedTuple):
    """The characters of a frame: lines along and down, and the corners above and below."""

    along: str
    down: str
    above: tuple[str, str]
    below: tuple[str, str]


_LINES: Final = _Box("─", "│", ("┌", "┐"), ("└", "┘"))
_ASCII: Final = _Box("-", "|", ("+", "+"), ("+", "+"))


def is_watched() -> bool:
    """Return whether stderr is a terminal."""
    return sys.stderr.isatty()


def print_password(user: str, password: str) -> None:
    """Print it in one write, so that no line of another process gets in between."""
    text = _render_frame(user, password) if is_watched() else _render_lines(user, password)
    sys.stderr.write(text)
    sys.stderr.flush()


def _render_lines(user: str, password: str) -> str:
    return (
        "docgraph: there were no users, and now there is one\n"
        f"  user      {user}\n"
        f"  password  {password}\n"
        f"  this is shown only once; '{_render_command(user)}' sets another password\n"
    )


def _render_frame(user: str, password: str) -> str:
    lines = (
        "There were no users, and now there is one:",
        "",
        f"  user      {user}",
        f"  password  {password}",
        "",
        "This is shown only once. To set another password:",
        f"  {_render_command(user)}",
    )
    box = _LINES if _can_draw(_LINES) else _ASCII
    width = max(_WIDTH, *map(len, lines))
    edge = box.along * (width + 4)
    inner = (f"{box.down}  {line:<{width}}  {box.down}" for line in lines)
    return "\n".join(("", edge.join(box.above), *inner, edge.join(box.below), "", ""))


def _render_command(user: str) -> str:
    return f"{own_command()} users passwd {user}{repeat_options(sys.argv[2:])}"


def _can_draw(box: _Box) -> bool:
    try:
        f"{box.along}{box.down}{box.above}".encode(sys.stderr.encoding or "ascii")
    except UnicodeEncodeError:
        return False
    return True
