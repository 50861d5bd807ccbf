"""Parsing that ends where fields of the same name are repeated too often to compare them.

`plan.merging` counts the same in the parsed document, and knows more: what fragments with a name
add at the places where they are spread, and which fields are alike. What one definition writes out
by itself is counted here, field by field. The rest of a hostile text is not read, or only its
tokens where they may be too many, which is a third of the work of parsing.
"""

from __future__ import annotations

from graphql import DefinitionNode, FieldNode, TokenKind
from graphql.language.parser import Parser

from docgraph.graphql.errors import OperationRefused

__all__ = ["MAX_COMPARISONS", "CountedParser", "refuse_repetition"]

MAX_COMPARISONS = 25_000  # of fields of the same name, each with each, where all are alike


def refuse_repetition() -> OperationRefused:
    """There are more comparisons than are made, or counted."""
    return OperationRefused.because(
        "the query selects fields of the same name too often to compare them all",
        "limit-exceeded",
    )


class _Place:
    """A place of the answer: how many fields were written for it, and the places below."""

    __slots__ = ("below", "count")

    def __init__(self) -> None:
        self.count = 0
        self.below: dict[str | None, _Place] = {}


class CountedParser(Parser):
    """Reads as the parser of graphql-core does; raises `OperationRefused` at a field too many."""

    def __init__(self, text: str, max_tokens: int) -> None:
        super().__init__(text, max_lexical_tokens=max_tokens, allow_empty_selection_sets=False)
        self._place = _Place()
        self._comparisons_left = MAX_COMPARISONS
        self._may_have_too_many_tokens = len(text) > max_tokens

    def parse_definition(self) -> DefinitionNode:
        """An operation or a fragment: its fields are not compared with those of another."""
        self._place = _Place()
        return super().parse_definition()

    def parse_field(self) -> FieldNode:
        """A field with all below it, which begins with its key in the answer: alias or name."""
        key, around = self._lexer.token.value, self._place
        place = around.below.get(key)
        if place is None:
            place = around.below[key] = _Place()
        self._comparisons_left -= place.count
        if self._comparisons_left < 0:
            self._count_tokens_left()
            raise refuse_repetition()
        place.count += 1
        self._place = place
        node = super().parse_field()
        self._place = around
        return node

    def _count_tokens_left(self) -> None:
        """A text with too many tokens is refused for that, whatever they are."""
        while self._may_have_too_many_tokens and self._lexer.token.kind is not TokenKind.EOF:
            self.advance_lexer()
