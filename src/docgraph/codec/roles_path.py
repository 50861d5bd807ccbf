"""Path to the roles of a user (`json-path-roles`), shared by authentication and authorization.

The code that authenticates users and the code that protects the users' collection read the same
documents with it, so that both always see the same roles.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from typing import Any, ClassVar, Final

from jsonpath import JSONPath, JSONPathEnvironment, JSONPathError
from jsonpath.exceptions import JSONPathSyntaxError
from jsonpath.filter import BaseExpression, StringLiteral
from jsonpath.function_extensions import ExpressionType, FilterFunction
from jsonpath.lex import Lexer
from jsonpath.segments import JSONPathChildSegment
from jsonpath.selectors import JSONPathSelector, NameSelector, WildcardSelector
from jsonpath.token import Token

from docgraph.codec.patterns import BadPattern, Pattern, Untriable
from docgraph.config.sources import CONFIGURATION
from docgraph.exchange import ConfigError, Document, Problem

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
        self.is_monotone = not any(_selects(selector) for selector in _selectors(query))
        self._query = query
        self._names_one = query.singular_query()

    def read(self, document: Document) -> tuple[str, ...] | None:
        """Return the roles; None if the value is no list. Values other than text are no roles."""
        try:
            values = self._query.findall(document)
        except JSONPathError:  # nested beyond its limit
            return None
        if self._names_one and values and not isinstance(values[0], list):
            return None
        flat = [role for node in values for role in (node if isinstance(node, list) else [node])]
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
    if any(_selects(selector) and "$" in str(selector) for selector in _selectors(query)):
        return None  # a filter that reads the whole document
    (selector,) = first.selectors
    name = selector.name if isinstance(selector, NameSelector) else ""
    # Other names are no properties in dot notation, which writes consist of.
    return name if name and name[0] != "$" and "." not in name else None


class _Lexer(Lexer):
    """Compiles the rules once for the process: that takes longer than reading a path."""

    _rules: ClassVar[re.Pattern[str] | None] = None

    def compile_strict_rules(self) -> re.Pattern[str]:
        """Return the rules, which are the same for each environment."""
        if _Lexer._rules is None:
            _Lexer._rules = super().compile_strict_rules()
        return _Lexer._rules


class _Environment(JSONPathEnvironment):
    """The standard functions, with patterns that are matched in linear time."""

    lexer_class = _Lexer

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
