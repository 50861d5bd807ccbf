"""Parse predicates to a tree: tokens and grammar.

    expr   := expr "or" expr | expr "and" expr | "not" expr | "(" expr ")" | atom
    atom   := "true" | "false" | NAME [ "(" args ")" | "[" args "]" ]
    args   := value ("," value)* | "{" value ("," value)* "}" | name "=" value ("," …)*
    value  := word | 'single quoted' | "double quoted"

An empty list, `name={}`, counts as not given.

`not` binds tighter than `and`, `and` tighter than `or`. Nesting is bounded, so that no text can
exhaust the stack.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from enum import StrEnum

MAX_NESTING = 50

_CLOSING = {"(": ")", "[": "]", "{": "}"}


@dataclass(frozen=True, slots=True)
class Literal:
    """`true` or `false`."""

    value: bool


@dataclass(frozen=True, slots=True)
class PredicateCall:
    """A function call with its arguments: by position, or by name (one value or several).

    Its text extends from `column` to `end`, both counted from 1 and inclusive.
    """

    name: str
    values: tuple[str, ...]
    named: tuple[tuple[str, tuple[str, ...]], ...]
    column: int
    end: int = field(default=0, compare=False)


@dataclass(frozen=True, slots=True)
class Not:
    """A negation."""

    part: Node


@dataclass(frozen=True, slots=True)
class All:
    """Parts joined by `and`."""

    parts: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class AnyOf:
    """Parts joined by `or`."""

    parts: tuple[Node, ...]


Node = Literal | PredicateCall | Not | All | AnyOf


def parse_predicate(text: str, words: re.Pattern[str] | None = None) -> Node:
    """Parse a predicate to a tree; raises `PredicateError`. `words` as in `tokenize`."""
    parser = _PredicateParser(tokenize(text, words))
    node = parser.parse_any(0)
    parser.expect_end()
    return node


class _PredicateParser:
    """Recursive descent over the tokens, at most `MAX_NESTING` deep."""

    def __init__(self, tokens: list[PredicateToken]) -> None:
        self._tokens = tokens
        self._position = 0

    @property
    def _token(self) -> PredicateToken:
        return self._tokens[self._position]

    def parse_any(self, depth: int) -> Node:
        parts = [self._parse_all(depth)]
        while self._token.is_word("or"):
            self._advance()
            parts.append(self._parse_all(depth))
        return parts[0] if len(parts) == 1 else AnyOf(tuple(parts))

    def expect_end(self) -> None:
        if self._token.kind is not TokenKind.END:
            raise self._unexpected("'and', 'or' or the end")

    def _parse_all(self, depth: int) -> Node:
        parts = [self._parse_not(depth)]
        while self._token.is_word("and"):
            self._advance()
            parts.append(self._parse_not(depth))
        return parts[0] if len(parts) == 1 else All(tuple(parts))

    def _parse_not(self, depth: int) -> Node:
        if not self._token.is_word("not"):
            return self._parse_atom(depth)
        self._advance()
        return Not(self._parse_atom(depth))

    def _parse_atom(self, depth: int) -> Node:
        token = self._token
        if depth > MAX_NESTING:
            raise PredicateError(token.column, f"nested deeper than {MAX_NESTING} levels")
        if token.is_mark("("):
            self._advance()
            node = self.parse_any(depth + 1)
            self._expect(")")
            return node
        if token.kind is not TokenKind.WORD or token.value in ("and", "or", "not"):
            raise self._unexpected("a predicate")
        self._advance()
        if token.value in ("true", "false"):
            return Literal(token.value == "true")
        return self._parse_call(token)

    def _parse_call(self, name: PredicateToken) -> PredicateCall:
        if not self._token.is_mark("(", "["):
            return PredicateCall(name.value, (), (), name.column, name.column + len(name.value) - 1)
        closing = _CLOSING[self._advance().value]
        values: list[str] = []
        named: list[tuple[str, tuple[str, ...]]] = []
        while not self._token.is_mark(closing):
            if values or named:
                self._expect(",")
            self._parse_argument(values, named)
        end = self._advance().column
        return PredicateCall(name.value, tuple(values), tuple(named), name.column, end)

    def _parse_argument(self, values: list[str], named: list[tuple[str, tuple[str, ...]]]) -> None:
        start = self._token
        given = self._parse_value()
        if not self._token.is_mark("="):
            if not given:
                raise PredicateError(start.column, "an empty list needs a name: name={}")
            if named:
                raise PredicateError(start.column, "a value without name after one with a name")
            values.extend(given)
            return
        if start.kind is not TokenKind.WORD or values:
            raise PredicateError(start.column, "a name is expected before '='")
        self._advance()
        if any(name == start.value for name, _ in named):
            raise PredicateError(start.column, f"the parameter {start.value} appears twice")
        named.append((start.value, self._parse_value()))

    def _parse_value(self) -> tuple[str, ...]:
        """Parse one value, or those of `{a, b}`."""
        if not self._token.is_mark("{"):
            return (self._parse_text(),)
        self._advance()
        if self._token.is_mark("}"):
            self._advance()
            return ()
        values = [self._parse_text()]
        while self._token.is_mark(","):
            self._advance()
            values.append(self._parse_text())
        self._expect("}")
        return tuple(values)

    def _parse_text(self) -> str:
        if self._token.kind not in (TokenKind.WORD, TokenKind.TEXT):
            raise self._unexpected("a value")
        return self._advance().value

    def _expect(self, mark: str) -> None:
        if not self._token.is_mark(mark):
            raise self._unexpected(f"'{mark}'")
        self._advance()

    def _advance(self) -> PredicateToken:
        token = self._token
        self._position += 1
        return token

    def _unexpected(self, expected: str) -> PredicateError:
        return PredicateError(self._token.column, f"expected {expected}, found {self._token}")


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
        """Return whether the token is one of these punctuation marks."""
        return self.kind is TokenKind.MARK and self.value in marks

    def is_word(self, word: str) -> bool:
        """Return whether the token is this word, unquoted."""
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
            if token.kind is TokenKind.WORD and text[position : position + 1] in ("'", '"'):
                raise PredicateError(position + 1, "a quote cannot start inside a word")
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
