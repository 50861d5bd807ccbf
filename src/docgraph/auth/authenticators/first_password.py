"""Show the password of the first user once: framed, at the end of the start (decision 35)."""

from __future__ import annotations

import sys
from typing import Final

from docgraph.exchange.program import own_command, repeat_options

_WIDTH: Final = 58  # minimum width of the text in the frame

# The characters of a frame: lines along and down, and the corners above and below.
_LINES: Final = ("─", "│", "┌┐", "└┘")

_ASCII: Final = ("-", "|", "++", "++")


def is_terminal() -> bool:
    return sys.stderr.isatty()


def print_password(user: str, password: str) -> None:
    """Print it in one write, so that no line of another process gets in between.

    On a terminal it is in a frame; otherwise in lines that a program can parse.
    """
    text = _render_frame(user, password) if is_terminal() else _render_lines(user, password)
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
    along, down, above, below = _LINES if _can_print("".join(_LINES)) else _ASCII
    width = max(_WIDTH, *map(len, lines))
    edge = along * (width + 4)
    inner = (f"{down}  {line:<{width}}  {down}" for line in lines)
    return "\n".join(("", edge.join(above), *inner, edge.join(below), "", ""))


def _render_command(user: str) -> str:
    return f"{own_command()} users passwd {user}{repeat_options(sys.argv[2:])}"


def _can_print(text: str) -> bool:
    try:
        text.encode(sys.stderr.encoding or "ascii")
    except UnicodeEncodeError:
        return False
    return True
