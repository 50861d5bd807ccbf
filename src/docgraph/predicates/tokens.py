"""The text of a predicate as tokens: words, quoted texts and punctuation, each with its column."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum

__all__ = ["REFERENCES", "Kind", "PredicateError", "Quoted", "Token", "tokenize"]

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
    """A text that is no predicate; `column` counts from 1."""

    def __init__(self, column: int, what: str) -> None:
        super().__init__(f"column {column}: {what}")
        self.column = column
        self.what = what


class Quoted(str):
    """A text that stood in quotes: whatever it looks like, it is a text and nothing else."""

    __slots__ = ()


class Kind(StrEnum):
    """What a token can be."""

    WORD = "word"
    TEXT = "text"
    MARK = "mark"
    END = "end"


@dataclass(frozen=True, slots=True)
class Token:
    """One token; the value of a quoted text is without its quotes."""

    kind: Kind
    value: str
    column: int

    def __str__(self) -> str:
        return "the end" if self.kind is Kind.END else f"'{self.value[:40]}'"

    def is_mark(self, *marks: str) -> bool:
        """Whether it is one of these punctuation marks."""
        return self.kind is Kind.MARK and self.value in marks

    def is_word(self, word: str) -> bool:
        """Whether it is this word, unquoted."""
        return self.kind is Kind.WORD and self.value == word


def tokenize(text: str, words: re.Pattern[str] | None = None) -> list[Token]:
    """Every token and the end; raises `PredicateError` for what is none.

    `words` are spellings that count as one word though punctuation is in them.
    """
    tokens: list[Token] = []
    position = 0
    while position < len(text):
        special = words.match(text, position) if words is not None else None
        match = special or _TOKEN.match(text, position)
        column = position + 1
        if match is None:
            raise PredicateError(column, f"the quote {text[position]} is not closed")
        position = match.end()
        token = Token(Kind.WORD, match[0], column) if special else _read(match, column)
        if token is not None:
            _refuse_glued_quote(token, text, position)
            tokens.append(token)
        if len(tokens) > MAX_TOKENS:
            raise PredicateError(column, f"more than {MAX_TOKENS} tokens")
    tokens.append(Token(Kind.END, "", len(text) + 1))
    return tokens


def _read(match: re.Match[str], column: int) -> Token | None:
    kind, value = match.lastgroup, match[0]
    if kind == "space":
        return None
    if kind == "mark":
        return Token(Kind.MARK, value, column)
    if kind == "word":
        if "->" in value:
            raise PredicateError(column, "'->' is reserved")
        return Token(Kind.WORD, value, column)
    quote, inner = value[0], value[1:-1]
    if not inner:
        raise PredicateError(column, "a quoted text cannot be empty")
    return Token(Kind.TEXT, Quoted(inner.replace(f"\\{quote}", quote)), column)


def _refuse_glued_quote(token: Token, text: str, end: int) -> None:
    if token.kind is Kind.WORD and text[end : end + 1] in ("'", '"'):
        raise PredicateError(end + 1, "a quote cannot start inside a word")
