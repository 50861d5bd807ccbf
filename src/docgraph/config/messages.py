"""Problems made ready for people: in reading order, and with nothing that moves the cursor."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace
from typing import Final

from docgraph.exchange.errors import Problem

__all__ = ["arrange"]

_PLACE: Final = re.compile(r"(?P<source>.*):(?P<line>\d+):(?P<column>\d+)")
_LONGEST: Final = 300


def arrange(problems: Iterable[Problem]) -> list[Problem]:
    """Problems by source, and within a file by line; each of them once."""
    cleaned = list(dict.fromkeys(_clean(problem) for problem in problems))
    sources: dict[str, int] = {}
    for problem in cleaned:
        sources.setdefault(_locate(problem)[0], len(sources))
    return sorted(cleaned, key=lambda p: (sources[_locate(p)[0]], *_locate(p)[1:]))


def _locate(problem: Problem) -> tuple[str, int, int]:
    match = _PLACE.fullmatch(problem.origin)
    return (
        (match["source"], int(match["line"]), int(match["column"]))
        if match
        else (problem.origin, 0, 0)
    )


def _clean(problem: Problem) -> Problem:
    return replace(
        problem,
        path=_escape(problem.path),
        message=_escape(problem.message),
        hint=_escape(problem.hint) if problem.hint else None,
    )


def _escape(text: str) -> str:
    shown = text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"
    if shown.isprintable():
        return shown
    return "".join(c if c.isprintable() else ascii(c)[1:-1] for c in shown)
