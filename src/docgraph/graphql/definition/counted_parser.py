"""Query parser with a limit: stops where too many fields of the same name would be compared.

`plan.field_merging` counts the same in the parsed document and knows more: what named fragments add
where they are spread, and which fields are equal. This parser counts what one definition writes out
by itself, field by field. It does not read the rest of a hostile text, or only its tokens where
they may be too many, which is a third of the work of parsing.
"""

from __future__ import annotations

from graphql import DefinitionNode, FieldNode, TokenKind
from graphql.language.parser import Parser

from docgraph.graphql.errors import OperationRefused

MAX_COMPARISONS = 25_000  # of fields of the same name, each with each, if all are equal


def reject_repetition() -> OperationRefused:
    """Build the error for too many comparisons of fields."""
    return OperationRefused.because(
        "the query selects fields of the same name too often to compare them all",
        "limit-exceeded",
    )


class _ResponseNode:
    """A position in the response: how many fields were written for it, and the positions below."""

    __slots__ = ("below", "count")

    def __init__(self) -> None:
        self.count = 0
        self.below: dict[str | None, _ResponseNode] = {}


class CountedParser(Parser):
    """The parser of graphql-core; raises `OperationRefused` at one field too many."""

    def __init__(self, text: str, max_tokens: int) -> None:
        super().__init__(text, max_lexical_tokens=max_tokens, allow_empty_selection_sets=False)
        self._place = _ResponseNode()
        self._comparisons_left = MAX_COMPARISONS
        self._may_have_too_many_tokens = len(text) > max_tokens

    def parse_definition(self) -> DefinitionNode:
        """Parse an operation or a fragment: its fields are not compared with those of another."""
        self._place = _ResponseNode()
        return super().parse_definition()

    def parse_field(self) -> FieldNode:
        """Parse a field with everything below it; its key in the response is its alias or name."""
        key, around = self._lexer.token.value, self._place
        place = around.below.get(key)
        if place is None:
            place = around.below[key] = _ResponseNode()
        self._comparisons_left -= place.count
        if self._comparisons_left < 0:
            self._count_tokens_left()
            raise reject_repetition()
        place.count += 1
        self._place = place
        node = super().parse_field()
        self._place = around
        return node

    def _count_tokens_left(self) -> None:
        """Count the remaining tokens: a text with too many is rejected for that alone."""
        while self._may_have_too_many_tokens and self._lexer.token.kind is not TokenKind.EOF:
            self.advance_lexer()
