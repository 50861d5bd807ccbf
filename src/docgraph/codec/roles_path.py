"""`json-path-roles`: where the roles of a user stand, read in one way by whoever needs them.

Those who log users in and those who guard the users read the same documents with this, so that
nobody can have a role in the eyes of the one and not of the other.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final

from jsonpath import JSONPath, JSONPathEnvironment, JSONPathError
from jsonpath.exceptions import JSONPathSyntaxError
from jsonpath.filter import BaseExpression, StringLiteral
from jsonpath.function_extensions import ExpressionType, FilterFunction
from jsonpath.segments import JSONPathChildSegment
from jsonpath.selectors import JSONPathSelector, NameSelector, WildcardSelector
from jsonpath.token import Token

from docgraph.codec.patterns import BadPattern, Pattern, Untriable
from docgraph.config.locate import CONFIGURATION
from docgraph.exchange import ConfigError, Document, Problem

__all__ = ["RolesPath"]

_PLAIN_PATH: Final = re.compile(r"\$((?:\.[A-Za-z_]\w*)+)(?:\[\*\])?")
_KEPT_PATTERNS: Final = 100


class RolesPath:
    """A JSON path (RFC 9535), compiled; raises `ConfigError`.

    `place` is where roles can be written, in dot notation, and `exact` the same where a condition
    on that place tells who has a role; `property` is the one property that everything the path
    looks at lies below (None: it could be any). With `is_monotone` nothing becomes a role because
    something else is taken away or changed.
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
        # `[*]` also takes the values of an object, and the texts in arrays inside an array.
        self.exact = None if text.endswith("[*]") else self.place
        self.property = _find_property(query)
        self.is_monotone = not any(_selects(one) for one in _selectors(query))
        self._query = query
        self._names_one = query.singular_query()

    def read(self, document: Document) -> tuple[str, ...] | None:
        """The roles; None when what stands there is no list. What is not text is no role."""
        try:
            found = self._query.findall(document)
        except JSONPathError:  # nested beyond its bound
            return None
        if self._names_one and found and not isinstance(found[0], list):
            return None
        flat = [role for one in found for role in (one if isinstance(one, list) else [one])]
        # Not `isinstance`: JavaScript code of the database is a kind of text here, and no role.
        return tuple(dict.fromkeys(role for role in flat if type(role) is str))


def _selectors(query: JSONPath) -> Iterator[JSONPathSelector]:
    return (selector for segment in query.segments for selector in segment.selectors)


def _selects(selector: JSONPathSelector) -> bool:
    """Whether it depends on places or on values which parts it takes (`[0]`, `[?@.on]`)."""
    return not isinstance(selector, NameSelector | WildcardSelector)


def _find_property(query: JSONPath) -> str | None:
    first = query.segments[0] if query.segments else None
    if not isinstance(first, JSONPathChildSegment) or len(first.selectors) != 1:
        return None
    if any(_selects(one) and "$" in str(one) for one in _selectors(query)):
        return None  # a filter that looks at the whole document
    (selector,) = first.selectors
    name = selector.name if isinstance(selector, NameSelector) else ""
    # Another name is no property in dot notation, which is what writes are made of.
    return name if name and name[0] != "$" and "." not in name else None


class _Environment(JSONPathEnvironment):
    """The standard functions, with patterns that are matched in linear time."""

    def setup_function_extensions(self) -> None:
        """Replace what would run patterns in Python's own `re`."""
        super().setup_function_extensions()
        self.function_extensions["match"] = _PatternFunction(whole=True)
        self.function_extensions["search"] = _PatternFunction(whole=False)

    def check_well_typedness(
        self, token: Token, func: FilterFunction, args: list[BaseExpression]
    ) -> None:
        """Refuse patterns that cannot be used, where they are written in the path."""
        super().check_well_typedness(token, func, args)
        if isinstance(func, _PatternFunction) and isinstance(args[1], StringLiteral):
            try:
                func.compile(args[1].value)
            except BadPattern as error:
                raise JSONPathSyntaxError(
                    f"the pattern of {token.value}() cannot be read: {error}", token=token
                ) from None


class _PatternFunction(FilterFunction):
    """`match` and `search` of RFC 9535; what is no pattern matches nothing, as it demands."""

    arg_types = [ExpressionType.VALUE, ExpressionType.VALUE]  # noqa: RUF012 - as the library has it
    return_type = ExpressionType.LOGICAL

    def __init__(self, *, whole: bool) -> None:
        self._whole = whole
        self._kept: dict[str, Pattern] = {}

    def compile(self, text: str) -> Pattern:
        """The pattern; raises `BadPattern`."""
        pattern = self._kept.get(text)
        if pattern is None:
            if len(self._kept) >= _KEPT_PATTERNS:
                self._kept.clear()
            pattern = self._kept[text] = Pattern(text)
        return pattern

    def __call__(self, value: Any, pattern: Any) -> bool:
        if not isinstance(value, str) or not isinstance(pattern, str):
            return False
        try:
            compiled = self.compile(pattern)
            find = compiled.fullmatch if self._whole else compiled.search
            return find(value) is not None
        except (BadPattern, Untriable):
            return False
