"""Lenient parser of extended JSON, which reports line and column of every mistake.

It reads what people write by hand: JSON, plus single quotes, bare keys, comments, trailing commas,
line breaks inside strings, and the notation of the MongoDB shell (`ObjectId("…")`, `/re/i`, `NaN`).
It defines what is accepted; `decode` is only a faster way to the same values. Nesting is bounded,
and so is the recursion; every rejection is a `BodyError`.
"""

from __future__ import annotations

import re
from typing import Any

from docgraph.codec.extended import CALLS, CONSTANTS, TYPE_KEYS, build_value, call
from docgraph.codec.parse_scalars import InvalidScalar, build_regex, parse_number, show
from docgraph.exchange.errors import BodyError

MAX_DEPTH = 200  # of documents in MongoDB, and safely below Python's recursion limit

# No possessive quantifiers and no atomic groups: `re` of Python 3.11.2 (Debian 12) has bugs in
# them. A group that repeats costs memory per round, so unbounded repetitions are loops below.
_SPACE = re.compile(r"[ \t\r\n\f\v]*")
_MAY_BE_PASSED = frozenset(" \t\r\n\f\v/")
_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?(?![\w.])")
_WORD = re.compile(r"[\w$]+")
_REGEX_CHUNK = re.compile(r"[^/\\\[\]\n]*")
_REGEX_FLAGS = re.compile(r"\w*")
_HEX = re.compile(r"[0-9a-fA-F]{4}")
_CHUNKS = {quote: re.compile(rf"[^{quote}\\\x00-\x1f]*") for quote in "\"'"}
_ESCAPES = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"} | {
    char: char for char in "\"'\\/\n"
}
_SURROGATES = range(0xD800, 0xE000)
_HIGH_SURROGATES = range(0xD800, 0xDC00)
_LOW_SURROGATES = range(0xDC00, 0xE000)
_END = ""  # the result of `_next` at the end of the text


def parse(text: str, *, max_depth: int, typed: bool = True) -> Any:
    """Parse a text; `typed=False` leaves `{"$oid": …}` and similar objects unchanged."""
    return _LenientParser(text, min(max_depth, MAX_DEPTH), typed).parse()


def build_error(text: str, position: int, message: str) -> BodyError:
    line = text.count("\n", 0, position) + 1
    column = position - text.rfind("\n", 0, position)
    return BodyError(
        f"line {line}, column {column}: {message}", details={"line": line, "column": column}
    )


class _LenientParser:
    """One parse: the text, the position in it, and the path of keys that leads there."""

    __slots__ = ("_max_depth", "_path", "_position", "_text", "_typed")

    def __init__(self, text: str, max_depth: int, typed: bool) -> None:
        self._text = text
        self._position = 0
        self._path: list[str | int] = []
        self._max_depth = max_depth
        self._typed = typed

    def parse(self) -> Any:
        if self._next() == _END:
            raise self._error("the text is empty")
        value = self._value(0)
        if self._next() != _END:
            raise self._error(f"unexpected {self._here()} after the end of the value")
        return value

    def _value(self, depth: int) -> Any:
        char = self._next()
        if char in ('"', "'"):
            return self._string(char)
        if char == "{":
            return self._object(depth + 1)
        if char == "[":
            return self._array(depth + 1)
        if char == "-" or "0" <= char <= "9":
            return self._number()
        if char == "/":
            return self._regex()
        if word := _WORD.match(self._text, self._position):
            return self._word(word, depth)
        raise self._error(f"expected a value, found {self._here()}")

    def _object(self, depth: int) -> Any:
        start = self._open(depth)
        document: dict[str, Any] = {}
        while self._next() != "}":
            key = self._key(document)
            if self._next() != ":":
                raise self._error(f"expected ':' after the key {show(key)}")
            self._position += 1
            self._path.append(key)
            document[key] = self._value(depth)
            self._path.pop()
            self._separator("}", f"after the value of the key {show(key)}")
        self._position += 1
        if self._typed and not TYPE_KEYS.isdisjoint(document):
            return self._built(start, build_value, document)
        return document

    def _array(self, depth: int) -> list[Any]:
        self._open(depth)
        values: list[Any] = []
        while self._next() != "]":
            self._path.append(len(values))
            values.append(self._value(depth))
            self._path.pop()
            self._separator("]", f"after element {len(values) - 1} of the array")
        self._position += 1
        return values

    def _open(self, depth: int) -> int:
        if depth > self._max_depth:
            raise self._error(f"nested deeper than {self._max_depth} levels")
        start = self._position
        self._position += 1
        return start

    def _separator(self, closing: str, place: str) -> None:
        char = self._next()
        if char == ",":
            self._position += 1
        elif char != closing:
            raise self._error(f"expected ',' or '{closing}' {place}, found {self._here()}")

    def _key(self, document: dict[str, Any]) -> str:
        start, char = self._position, self._text[self._position : self._position + 1]
        if char in ('"', "'"):
            key = self._string(char)
        elif word := _WORD.match(self._text, start):
            key = word.group()
            self._position = word.end()
        else:
            raise self._error(f"expected a key or '}}', found {self._here()}")
        if "\0" in key:
            raise self._error("a key cannot contain the character NUL", start)
        if key in document:
            raise self._error(f"the key {show(key)} appears twice in one object", start)
        return key

    def _number(self) -> int | float:
        start = self._position
        match = _NUMBER.match(self._text, start)
        if match is None:
            if self._text.startswith("-Infinity", start):
                self._position += len("-Infinity")
                return -float("inf")
            raise self._error("malformed number")
        self._position = match.end()
        return self._built(start, parse_number, match.group())  # type: ignore[no-any-return]

    def _string(self, quote: str) -> str:
        start = self._position
        self._position += 1
        parts: list[str] = []
        chunk = _CHUNKS[quote]
        while True:
            end = _skip(chunk, self._text, self._position)
            parts.append(self._text[self._position : end])
            self._position = end
            char = self._text[self._position : self._position + 1]
            if char == quote:
                self._position += 1
                return "".join(parts)
            if char == "\\":
                parts.append(self._escape())
            elif char == _END:
                raise self._error("the string that starts here has no end", start)
            elif char in "\n\r\t":
                parts.append(char)
                self._position += 1
            else:
                raise self._error(f"the control character must be written as \\u{ord(char):04x}")

    def _escape(self) -> str:
        start = self._position
        char = self._text[start + 1 : start + 2]
        self._position += 2
        if char != "u":
            if char not in _ESCAPES:
                raise self._error(f"unknown escape \\{char} in a string", start)
            return _ESCAPES[char]
        code = self._code_unit(start)
        if code in _HIGH_SURROGATES and self._text.startswith("\\u", self._position):
            self._position += 2
            low = self._code_unit(start)
            if low in _LOW_SURROGATES:
                return chr(0x10000 + ((code - 0xD800) << 10) + (low - 0xDC00))
        if code in _SURROGATES:
            raise self._error("half of a surrogate pair in a string", start)
        return chr(code)

    def _code_unit(self, start: int) -> int:
        match = _HEX.match(self._text, self._position)
        if match is None:
            raise self._error("\\u needs four hexadecimal digits", start)
        self._position = match.end()
        return int(match.group(), 16)

    def _regex(self) -> Any:
        start, end = self._position, self._regex_end()
        flags = _skip(_REGEX_FLAGS, self._text, end + 1)
        pattern = self._text[start + 1 : end].replace("\\/", "/")
        self._position = flags
        return self._built(start, build_regex, pattern, self._text[end + 1 : flags])

    def _regex_end(self) -> int:
        """Return the position of the slash that ends the regular expression at this position."""
        text, position, in_class = self._text, self._position + 1, False
        while True:
            position = _skip(_REGEX_CHUNK, text, position)
            char = text[position : position + 1]
            if char == "/" and not in_class:
                return position
            if char == "\\" and text[position + 1 : position + 2] not in (_END, "\n"):
                position += 2
            elif char in ("[", "]", "/"):
                in_class = char == "[" or (in_class and char == "/")
                position += 1
            else:
                raise self._error("the regular expression that starts here has no end")

    def _word(self, match: re.Match[str], depth: int) -> Any:
        start, name = self._position, match.group()
        self._position = match.end()
        if name == "new":
            self._next()
            match = _WORD.match(self._text, self._position) or match
            name = match.group()
            self._position = match.end()
        if name in CALLS and self._next() == "(":
            return self._built(start, call, name, self._arguments(depth + 1))
        if name in CONSTANTS:
            return CONSTANTS[name]
        if name in CALLS:
            raise self._error(f"expected '(' after {name}, found {self._here()}")
        raise self._error(f"unknown word {show(name)}; a string needs quotes", start)

    def _arguments(self, depth: int) -> list[Any]:
        self._open(depth)
        values: list[Any] = []
        while self._next() != ")":
            values.append(self._value(depth))
            self._separator(")", "after an argument")
        self._position += 1
        return values

    def _built(self, start: int, build: Any, *arguments: Any) -> Any:
        try:
            return build(*arguments)
        except InvalidScalar as error:
            path = "".join(f"[{key}]" if isinstance(key, int) else f".{key}" for key in self._path)
            where = f" (at {show(path.removeprefix('.'), 200)})" if path else ""
            raise self._error(f"{error}{where}", start) from None

    def _next(self) -> str:
        """Move to the next character that is neither space nor comment, and return it."""
        char = self._text[self._position : self._position + 1]
        if char in _MAY_BE_PASSED:
            self._position = self._skip_space(self._position)
            char = self._text[self._position : self._position + 1]
        return char

    def _skip_space(self, position: int) -> int:
        text, position = self._text, _skip(_SPACE, self._text, position)
        while text.startswith(("//", "/*"), position):
            closing = "\n" if text[position + 1] == "/" else "*/"
            end = text.find(closing, position + 2)
            if end < 0 and closing == "*/":
                raise self._error("the comment that starts here has no end", position)
            position = len(text) if end < 0 else _skip(_SPACE, text, end + len(closing))
        return position

    def _here(self) -> str:
        char = self._text[self._position : self._position + 1]
        return "the end of the text" if char == _END else repr(char)

    def _error(self, message: str, position: int | None = None) -> BodyError:
        return build_error(self._text, self._position if position is None else position, message)


def _skip(pattern: re.Pattern[str], text: str, position: int) -> int:
    """Return the end of the match of the pattern, which may be empty."""
    match = pattern.match(text, position)
    assert match is not None  # noqa: S101
    return match.end()
