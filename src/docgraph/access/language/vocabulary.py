"""Every word of the language."""

from __future__ import annotations

from collections.abc import Mapping

from docgraph.access.language.bodies import BODY_WORDS
from docgraph.access.language.paths import PATH_WORDS
from docgraph.access.language.requests import REQUEST_WORDS
from docgraph.access.language.word import Word

__all__ = ["VOCABULARY"]

VOCABULARY: Mapping[str, Word] = {**PATH_WORDS, **REQUEST_WORDS, **BODY_WORDS}
