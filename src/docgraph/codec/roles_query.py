"""Roles by a JSON path (RFC 9535) that is more than names.

Only such a path needs the library, whose import takes longer than any other of a start.
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
from docgraph.exchange import Document

_KEPT_PATTERNS: Final = 100


class RolesQuery:
    """A compiled JSON path; raises `ValueError` if the text is none."""

    def __init__(self, text: str) -> None:
        try:
            query = _Environment(strict=True).compile(text)
        except JSONPathError as error:
            raise ValueError(error.args[0]) from None
        if not isinstance(query, JSONPath):
            raise ValueError("several paths in one are not allowed")
        self.property = _find_property(query)
        self.is_monotone = not any(_selects(selector) for selector in _selectors(query))
        self.names_one = query.singular_query()
        self._query = query

    def find_values(self, document: Document) -> list[Any] | None:
        """Return the values at the path; None if the document is nested beyond the limit."""
        try:
            return self._query.findall(document)
        except JSONPathError:
            return None


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
