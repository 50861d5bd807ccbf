"""Words of a search, and names as words."""

from __future__ import annotations

import pytest

from docgraph.graphql.describe.search import split_words


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("topRatedFilms", ("top", "rated", "films")),
        ("top_rated films", ("top", "rated", "films")),
        ("HTTPStatus 404", ("http", "status", "404")),
        ("Größe größe", ("größe",)),
        ("…!?", ()),
    ],
)
def test_names_and_sentences_are_split_into_words(text: str, words: tuple[str, ...]) -> None:
    assert split_words(text) == words
