"""Tokenize a predicate: words, quoted texts and punctuation, each with its column."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum

MAX_TOKENS = 2_000

# Variables and paths that need no quotes: @qparams['x'], @rnd(8), ${id}, %{i,Accept}, /users/{id}
REFERENCES = re.compile(
    r"""
    @ [\w.-]+ (?: \[ (?: \d+ | '[^']*' | "[^"]*" ) \] | \( \d+ \) ) (?: \.[\w.-]+ | \[\d+\] )*
    | [^\s()\[\]{},=;'"]+ (?: \{ [^{}'"]* \} [^\s()\[\]{},=;'"]* )+
    """,
    re.VERBOSE,
)

_TOKEN = re.compile(
    r"""
    (?P<space> \s+ )
    | (?P<single> ' (?: [^'\\] | \\. )* ' )
    | (?P<double> " (?: [^"\\] | \\. )* " )
    | (?P<mark> [()\[\]{},=;] )
    | (?P<word> [^\s()\[\]{},=;'"]+ )
    """,
    re.VERBOSE | re.DOTALL,
)


class PredicateError(ValueError):
    """An invalid predicate; `column` counts from 1."""

    def __init__(self, column: int, what: str) -> None:
        super().__init__(f"column {column}: {what}")
        self.column = column
        self.what = what


class Quoted(str):
    """A quoted text: it is never a variable or a number."""

    __slots__ = ()


class TokenKind(StrEnum):
    """The kinds of tokens."""

    WORD = "word"
    TEXT = "text"
    MARK = "mark"
    END = "end"


@dataclass(frozen=True, slots=True)
class PredicateToken:
    """One token; the value of a quoted text is without its quotes."""

    kind: TokenKind
    value: str
    column: int

    def __str__(self) -> str:
        return "the end" if self.kind is TokenKind.END else f"'{self.value[:40]}'"

    def is_mark(self, *marks: str) -> bool:
        """Return whether it is one of these punctuation marks."""
        return self.kind is TokenKind.MARK and self.value in marks

    def is_word(self, word: str) -> bool:
        """Return whether it is this word, unquoted."""
        return self.kind is TokenKind.WORD and self.value == word


def tokenize(text: str, words: re.Pattern[str] | None = None) -> list[PredicateToken]:
    """Return every token and the end; raises `PredicateError` for invalid text.

    `words` are spellings with punctuation that count as one word.
    """
    tokens: list[PredicateToken] = []
    position = 0
    while position < len(text):
        special = words.match(text, position) if words is not None else None
        match = special or _TOKEN.match(text, position)
        column = position + 1
        if match is None:
            raise PredicateError(column, f"the quote {text[position]} is not closed")
        position = match.end()
        token = (
            PredicateToken(TokenKind.WORD, match[0], column) if special else _read(match, column)
        )
        if token is not None:
            _reject_glued_quote(token, text, position)
            tokens.append(token)
        if len(tokens) > MAX_TOKENS:
            raise PredicateError(column, f"more than {MAX_TOKENS} tokens")
    tokens.append(PredicateToken(TokenKind.END, "", len(text) + 1))
    return tokens


def _read(match: re.Match[str], column: int) -> PredicateToken | None:
    kind, value = match.lastgroup, match[0]
    if kind == "space":
        return None
    if kind == "mark":
        return PredicateToken(TokenKind.MARK, value, column)
    if kind == "word":
        if "->" in value:
            raise PredicateError(column, "'->' is reserved")
        return PredicateToken(TokenKind.WORD, value, column)
    quote, inner = value[0], value[1:-1]
    if not inner:
        raise PredicateError(column, "a quoted text cannot be empty")
    return PredicateToken(TokenKind.TEXT, Quoted(inner.replace(f"\\{quote}", quote)), column)


def _reject_glued_quote(token: PredicateToken, text: str, end: int) -> None:
    if token.kind is TokenKind.WORD and text[end : end + 1] in ("'", '"'):
        raise PredicateError(end + 1, "a quote cannot start inside a word")
