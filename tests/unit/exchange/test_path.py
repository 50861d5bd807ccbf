"""One reading of a path for routing, rules and services (decision 39)."""

import pytest

from docgraph.exchange.errors import RequestError
from docgraph.exchange.path import parse_path, render_path


@pytest.mark.parametrize(
    ("raw", "segments"),
    [
        (b"/", ()),
        (b"", ()),
        (b"/a/b", ("a", "b")),
        (b"//a///b//", ("a", "b")),
        (b"/a/./b", ("a", "b")),
        (b"/a/../b", ("b",)),
        (b"/../../a", ("a",)),
        (b"/a/%2e%2e/b", ("b",)),
        (b"/a%2Fb", ("a/b",)),
        (b"/%C3%A9", ("é",)),
        (b"/A", ("A",)),
    ],
)
def test_a_path_has_one_reading(raw: bytes, segments: tuple[str, ...]) -> None:
    assert parse_path(raw) == segments


@pytest.mark.parametrize("raw", [b"/%ff", b"/%C3", b"/a%00b"])
def test_a_path_that_is_no_text_is_refused(raw: bytes) -> None:
    with pytest.raises(RequestError):
        parse_path(raw)


def test_the_root_renders_as_a_slash() -> None:
    assert render_path(()) == "/"
    assert render_path(("a", "b")) == "/a/b"
