"""Regular expressions from outside (rules, role paths), matched by RE2 in linear time (ReDoS).

They run on the event loop: the time grows with the text and the pattern, and never with the number
of ways to match. Syntax that RE2 does not support (lookaround, backreferences, …) is rejected when
the pattern is compiled.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from typing import Any, Final

import re2  # type: ignore[import-untyped]
from jsonpath import JSONPath, JSONPathEnvironment, JSONPathError
from jsonpath.exceptions import JSONPathSyntaxError
from jsonpath.filter import BaseExpression, StringLiteral
from jsonpath.function_extensions import ExpressionType, FilterFunction
from jsonpath.segments import JSONPathChildSegment
from jsonpath.selectors import JSONPathSelector, NameSelector, WildcardSelector
from jsonpath.token import Token

from docgraph.config.sources import CONFIGURATION
from docgraph.exchange import ConfigError, Document, Problem

MAX_PATTERN: Final = 4096  # characters
_MAX_MEMORY: Final = 1 << 20  # bytes of one compiled pattern, including its matching state
# In the worst case, RE2 runs every instruction of the pattern on every byte of the text. Four
# million such steps take less than a tenth of a second; the pattern `a{1000}` has 1005
# instructions.
_MAX_STEPS: Final = 4_000_000
# A class such as \p{L} has a thousand instructions, of which few are ever active together.
_ALWAYS_TRIED: Final = 1024  # bytes

_LOOKAROUND: Final = "lookaround is not known"
_ADVICE: Final = {
    "(?=": _LOOKAROUND,
    "(?!": _LOOKAROUND,
    "(?<=": _LOOKAROUND,
    "(?<!": _LOOKAROUND,
    "(?>": "atomic groups are not known; write (?:…)",
    "(?P": "backreferences are not known",
    "(?(": "conditional groups are not known",
    "(?#": "comments are not known",
    "(?x": "the flags are i, m, s and U",
    "(?a": "the flags are i, m, s and U; \\w, \\d, \\s and \\b are ASCII anyhow",
    "(?u": "the flags are i, m, s and U",
    "\\Z": "write \\z for the end of the text",
    "\\u": "write \\x{20ac} for a character by its number",
    "\\U": "write \\x{1f600} for a character by its number",
    "++": "possessive repetitions are not known; write one sign",
    "*+": "possessive repetitions are not known; write one sign",
    "?+": "possessive repetitions are not known; write one sign",
}
# Skips escapes, quotations and classes, so that the last two groups match real syntax only.
_SCAN: Final = re.compile(
    r"\\Q.*?(?:\\E|\Z)|(\\C)|\\.|\[\^?\]?(?:\\.|[^\]\\])*\]|(\{,[0-9]+\})", re.DOTALL
)


class BadPattern(ValueError):
    """A pattern that cannot be used; `construct` is the invalid part of it, if known."""

    def __init__(self, reason: str, construct: str = "") -> None:
        super().__init__(reason)
        self.construct = construct


class Untriable(ValueError):
    """A text that is not matched: too long for the pattern, or not encodable."""


class Pattern:
    """A compiled pattern; raises `BadPattern`."""

    __slots__ = ("_compiled", "groups", "longest")

    def __init__(self, text: str, *, ignore_case: bool = False) -> None:
        if len(text) > MAX_PATTERN:
            raise BadPattern(f"longer than {MAX_PATTERN} characters")
        _check_differences(text)
        options = re2.Options()
        options.log_errors = False
        options.max_mem = _MAX_MEMORY
        options.case_sensitive = not ignore_case
        try:
            self._compiled: Any = re2.compile(text, options)
        except re2.error as error:
            raise _explain(error) from None
        except UnicodeEncodeError:
            raise BadPattern("it holds half of a surrogate pair") from None
        self.groups: int = self._compiled.groups
        steps = max(1, self._compiled.programsize)
        self.longest = max(_ALWAYS_TRIED, _MAX_STEPS // steps)  # bytes of a text

    def search(self, text: str) -> tuple[str | None, ...] | None:
        """Return the first match and its groups, or None. Raise `Untriable`."""
        return self._match(self._compiled.search, text)

    def fullmatch(self, text: str) -> tuple[str | None, ...] | None:
        """Return the match of the whole text and its groups, or None. Raise `Untriable`."""
        return self._match(self._compiled.fullmatch, text)

    def _match(self, find: Any, text: str) -> tuple[str | None, ...] | None:
        try:
            length = len(text.encode())
        except UnicodeEncodeError:
            raise Untriable("it holds half of a surrogate pair") from None
        if length > self.longest:
            raise Untriable(f"it is longer than {self.longest} bytes")
        match = find(text)
        return None if match is None else (match[0], *match.groups())


def _check_differences(text: str) -> None:
    """Reject syntax that RE2 interprets differently from other engines."""
    for found in _SCAN.finditer(text):
        if found[1]:
            raise BadPattern("\\C is not known", "\\C")
        if found[2]:
            raise BadPattern(f"{found[2]} has no lower bound; write {{0{found[2][1:]}", found[2])


def _explain(error: Exception) -> BadPattern:
    raw = error.args[0]
    reason = raw.decode("utf-8", "replace") if isinstance(raw, bytes) else str(raw)
    _, known, construct = reason.rpartition(": ")
    construct = construct if known else ""
    advice = _ADVICE.get(construct)
    if advice is None and re.fullmatch(r"\\[1-9]", construct):
        advice = "backreferences are not known"
    if advice is None and reason.startswith("invalid repetition size"):
        advice = "a count is 1000 at most, also that of nested ones together"
    return BadPattern(f"{reason} ({advice})" if advice else reason, construct)


# Path to the roles of a user (`json-path-roles`), shared by authentication and authorization.
#
# The code that authenticates users and the code that protects the users' collection read the same
# documents with it, so that both always see the same roles.

_PLAIN_PATH: Final = re.compile(r"\$((?:\.[A-Za-z_]\w*)+)(?:\[\*\])?")
_KEPT_PATTERNS: Final = 100


class RolesPath:
    """A compiled JSON path (RFC 9535); raises `ConfigError`.

    `place` is where roles can be written, in dot notation. `exact` is the same if a condition on it
    decides exactly who has a role. `property` is the one property that contains everything the path
    reads (None: it could be any). With `is_monotone`, removing or changing something never adds a
    role.
    """

    __slots__ = ("_names_one", "_query", "exact", "is_monotone", "place", "property", "text")

    def __init__(self, text: str) -> None:
        try:
            query = _Environment(strict=True).compile(text)
        except JSONPathError as error:
            raise ConfigError(
                [
                    Problem(
                        CONFIGURATION,
                        "/dbRealmAuthenticator/json-path-roles",
                        f"not a JSON path (RFC 9535): {error.args[0]}",
                        "write it like $.roles",
                    )
                ]
            ) from None
        assert isinstance(query, JSONPath)  # noqa: S101 - strict paths are never compound
        plain = _PLAIN_PATH.fullmatch(text)
        self.text = text
        self.place = plain[1][1:] if plain else None
        # `[*]` also matches the values of an object, and the texts in arrays inside an array.
        self.exact = None if text.endswith("[*]") else self.place
        self.property = _find_property(query)
        self.is_monotone = not any(_selects(one) for one in _selectors(query))
        self._query = query
        self._names_one = query.singular_query()

    def read(self, document: Document) -> tuple[str, ...] | None:
        """Return the roles; None if the value is no list. Values other than text are no roles."""
        try:
            found = self._query.findall(document)
        except JSONPathError:  # nested beyond its limit
            return None
        if self._names_one and found and not isinstance(found[0], list):
            return None
        flat = [role for one in found for role in (one if isinstance(one, list) else [one])]
        # Not `isinstance`: JavaScript code of the database is a subclass of str here, and no role.
        return tuple(dict.fromkeys(role for role in flat if type(role) is str))


def _selectors(query: JSONPath) -> Iterator[JSONPathSelector]:
    return (selector for segment in query.segments for selector in segment.selectors)


def _selects(selector: JSONPathSelector) -> bool:
    """Return whether the selection depends on positions or values (`[0]`, `[?@.on]`)."""
    return not isinstance(selector, NameSelector | WildcardSelector)


def _find_property(query: JSONPath) -> str | None:
    first = query.segments[0] if query.segments else None
    if not isinstance(first, JSONPathChildSegment) or len(first.selectors) != 1:
        return None
    if any(_selects(one) and "$" in str(one) for one in _selectors(query)):
        return None  # a filter that reads the whole document
    (selector,) = first.selectors
    name = selector.name if isinstance(selector, NameSelector) else ""
    # Other names are no properties in dot notation, which writes consist of.
    return name if name and name[0] != "$" and "." not in name else None


class _Environment(JSONPathEnvironment):
    """The standard functions, with patterns that are matched in linear time."""

    def setup_function_extensions(self) -> None:
        """Replace the functions that would run patterns in Python's `re`."""
        super().setup_function_extensions()
        self.function_extensions["match"] = _PatternFunction(whole=True)
        self.function_extensions["search"] = _PatternFunction(whole=False)

    def check_well_typedness(
        self, token: Token, func: FilterFunction, args: list[BaseExpression]
    ) -> None:
        """Reject invalid patterns that are written in the path."""
        super().check_well_typedness(token, func, args)
        if isinstance(func, _PatternFunction) and isinstance(args[1], StringLiteral):
            try:
                func.compile(args[1].value)
            except BadPattern as error:
                raise JSONPathSyntaxError(
                    f"the pattern of {token.value}() cannot be read: {error}", token=token
                ) from None


class _PatternFunction(FilterFunction):
    """`match` and `search` of RFC 9535; an invalid pattern matches nothing, as it requires."""

    arg_types = [ExpressionType.VALUE, ExpressionType.VALUE]  # noqa: RUF012 - as the library has it
    return_type = ExpressionType.LOGICAL

    def __init__(self, *, whole: bool) -> None:
        self._whole = whole
        self.compile = lru_cache(maxsize=_KEPT_PATTERNS)(Pattern)  # raises `BadPattern`

    def __call__(self, value: Any, pattern: Any) -> bool:
        if not isinstance(value, str) or not isinstance(pattern, str):
            return False
        try:
            compiled = self.compile(pattern)
            find = compiled.fullmatch if self._whole else compiled.search
            return find(value) is not None
        except (BadPattern, Untriable):
            return False
