"""The vocabulary of the predicate language: every function."""

from __future__ import annotations

from collections.abc import Mapping

from docgraph.access.language.body_functions import BODY_WORDS
from docgraph.access.language.function import AccessFunction
from docgraph.access.language.path_functions import PATH_WORDS
from docgraph.access.language.request_functions import REQUEST_WORDS

VOCABULARY: Mapping[str, AccessFunction] = {**PATH_WORDS, **REQUEST_WORDS, **BODY_WORDS}
