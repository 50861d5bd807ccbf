"""Spellings of rules that the common grammar does not know, written as it knows them.

`${id}`, `%{i,Accept}`, `/users/{id}` and `@qparams['x']` may stand without quotes, and a list of
values may be empty (`values={}`). Columns of errors are told as in the text that was written.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from docgraph.predicates import PredicateError

__all__ = ["Spelling", "respell"]

_PART = re.compile(
    r"""
    (?P<quoted> ' (?: [^'\\] | \\. )* ' | " (?: [^"\\] | \\. )* " )
    | (?P<empty> ,? \s* [\w-]+ \s* = \s* \{ \s* \} )
    | (?P<variable>
        @ [\w.-]+ (?: \[ (?: \d+ | '[^']*' | "[^"]*" ) \] | \( \d+ \) ) (?: \.[\w.-]+ | \[\d+\] )*
        | [^\s()\[\]{},=;'"]+ (?: \{ [^{}'"]* \} [^\s()\[\]{},=;'"]* )+
      )
    | (?P<word> [^\s()\[\]{},=;'"]+ )
    """,
    re.VERBOSE | re.DOTALL,
)


@dataclass(frozen=True, slots=True)
class Spelling:
    """A text for the common grammar; `shifts` are positions in it and what was added there."""

    text: str
    shifts: tuple[tuple[int, int], ...] = ()

    def find_column(self, column: int) -> int:
        """The column in the original text of one in this text; both count from 1."""
        added = 0
        for position, more in self.shifts:
            if position >= column:
                break
            added += more
        return max(column - added, 1)


def respell(text: str) -> Spelling:
    """The text with quotes around what needs them, and without empty lists.

    Raises `PredicateError` for what no quotes around it would make right.
    """
    pieces: list[str] = []
    shifts: list[tuple[int, int]] = []
    end = size = 0
    for match in _PART.finditer(text):
        _refuse_open_quote(text, end, match.start())
        replacement = _respell_part(match)
        piece = text[end : match.start()] + replacement
        pieces.append(piece)
        size += len(piece)
        end = match.end()
        if len(replacement) != len(match[0]):
            shifts.append((size, len(replacement) - len(match[0])))
    _refuse_open_quote(text, end, len(text))
    pieces.append(text[end:])
    return Spelling("".join(pieces), tuple(shifts))


def _refuse_open_quote(text: str, start: int, end: int) -> None:
    """A quote between the parts has no partner; the quotes that we add must not become it."""
    for column, character in enumerate(text[start:end], start + 1):
        if character in ("'", '"'):
            raise PredicateError(column, f"the quote {character} is not closed")


def _respell_part(match: re.Match[str]) -> str:
    if match["empty"] is not None:
        return ""  # a parameter that is not given is an empty list
    if match["variable"] is None:
        return match[0]
    if match[0].endswith("\\"):
        raise PredicateError(match.end(), "a backslash at the end needs quotes around the text")
    quote = '"' if "'" in match[0] else "'"
    return quote + match[0].replace(quote, f"\\{quote}") + quote
