"""The figures of the pages are those that their texts and the table of the bench give."""

from __future__ import annotations

import re
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest
from tools.figures import IMAGES, draw_bars, draw_figures
from tools.pictures import LARGEST

ROOT = Path(__file__).parents[3]
PAGES = {
    "request.svg": "ARCHITECTURE.md",
    "batching.svg": "docs/explanation/engine.md",
    "bench.svg": "bench/README.md",
}
PICTURES = {
    "access": "docs/how-to/grant-access-in-the-browser.md",
    "apps": "docs/how-to/edit-apps-in-the-browser.md",
    "ask": "docs/how-to/ask-in-the-browser.md",
    "data": "docs/how-to/browse-data.md",
}


@pytest.mark.parametrize(("name", "page"), PAGES.items())
def test_a_figure_is_current_and_shown(name: str, page: str) -> None:
    figure = draw_figures()[name]

    assert (IMAGES / name).read_text() == figure, "run tools/figures.py"
    assert f"images/{name})" in (ROOT / page).read_text()
    ET.fromstring(figure)  # noqa: S314 - it is ours


@pytest.mark.parametrize("path", sorted(IMAGES.glob("*.png")), ids=lambda path: path.name)
def test_a_picture_is_small_and_shown_on_a_page(path: Path) -> None:
    name = re.search(r"console-(\w+)-(?:light|dark)", path.stem)

    assert name is not None
    assert path.stat().st_size < LARGEST
    assert f"images/{path.name}#only-" in (ROOT / PICTURES[name[1]]).read_text()


def test_bars_are_as_long_as_what_they_show() -> None:
    figure = draw_bars([("W1", 1.0, 2.0)])

    bars = re.findall(r'class="(\w+)" x="90" y="\d+" width="(\d+)" height="14"/>\n<text', figure)
    assert bars[:2] == [("ours", "280"), ("other", "560")]
