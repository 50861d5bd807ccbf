"""Write modes: how a write treats existing documents."""

from __future__ import annotations

from docgraph.exchange import WriteMode

_DEFAULTS = {"POST": WriteMode.INSERT, "PUT": WriteMode.UPDATE, "PATCH": WriteMode.UPDATE}


def default_mode(method: str) -> WriteMode:
    """Return the mode of a request that does not name one."""
    return _DEFAULTS[method]


def parse_mode(text: str) -> WriteMode | None:
    """Return the named mode, in any letter case; None, which means the default, for others."""
    try:
        return WriteMode(text.lower())
    except ValueError:
        return None
