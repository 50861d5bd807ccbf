"""How the password of the first administrator is told: once, on stderr, and nowhere else.

On a terminal it is the last thing on the screen, in a frame; where nobody watches, lines that a
program can read.
"""

from __future__ import annotations

import sys
from typing import Final, NamedTuple

__all__ = ["is_watched", "tell_password"]

_WIDTH: Final = 64


class _Box(NamedTuple):
    """What a frame is drawn with: lines along and down, and the corners above and below."""

    along: str
    down: str
    above: tuple[str, str]
    below: tuple[str, str]


_LINES: Final = _Box("─", "│", ("┌", "┐"), ("└", "┘"))
_ASCII: Final = _Box("-", "|", ("+", "+"), ("+", "+"))


def is_watched() -> bool:
    """Whether somebody sees stderr as it is written."""
    return sys.stderr.isatty()


def tell_password(user: str, password: str) -> None:
    """Write it, all at once, so that no line of another process gets in between."""
    text = _render_frame(user, password) if is_watched() else _render_lines(user, password)
    sys.stderr.write(text)
    sys.stderr.flush()


def _render_lines(user: str, password: str) -> str:
    return (
        "docgraph: there were no users, and now there is one\n"
        f"  user      {user}\n"
        f"  password  {password}\n"
        f"  this is shown only once; 'docgraph users passwd {user}' sets another password\n"
    )


def _render_frame(user: str, password: str) -> str:
    lines = (
        "There were no users, and now there is one:",
        "",
        f"  user      {user}",
        f"  password  {password}",
        "",
        "This is shown only once.",
        f"'docgraph users passwd {user}' sets another password.",
    )
    box = _LINES if _can_draw(_LINES) else _ASCII
    edge = box.along * (_WIDTH - 2)
    inner = (f"{box.down}  {line:<{_WIDTH - 4}}{box.down}" for line in lines)
    return "\n".join(("", edge.join(box.above), *inner, edge.join(box.below), "", ""))


def _can_draw(box: _Box) -> bool:
    try:
        f"{box.along}{box.down}{box.above}".encode(sys.stderr.encoding or "ascii")
    except UnicodeEncodeError:
        return False
    return True
