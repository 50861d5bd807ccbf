"""The look of pages can be read by everybody, and their policy allows it and nothing else."""

from __future__ import annotations

import re
from base64 import b64encode
from hashlib import sha256

import pytest

from docgraph.exchange.markup import PageStyle, code, link

STYLE = PageStyle("body{max-width:1rem}")
LIGHT, DARK = (
    dict(re.findall(r"--(\w+):(#[0-9a-f]{6})", part))
    for part in STYLE.sheet.split("prefers-color-scheme:dark")
)
READABLE = 4.5  # WCAG 2.2, level AA, for text of any size


def find_luminance(colour: str) -> float:
    parts = [int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5)]
    red, green, blue = (
        part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts
    )
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


@pytest.mark.parametrize("theme", [LIGHT, DARK], ids=["light", "dark"])
@pytest.mark.parametrize("text", ["ink", "soft", "accent"])
@pytest.mark.parametrize("ground", ["paper", "panel"])
def test_every_text_stands_out_from_its_ground(
    theme: dict[str, str], text: str, ground: str
) -> None:
    lighter, darker = sorted(
        (find_luminance(theme[text]), find_luminance(theme[ground])), reverse=True
    )

    assert (lighter + 0.05) / (darker + 0.05) >= READABLE


def test_the_policy_allows_the_style_of_the_page_and_nothing_else() -> None:
    page = STYLE.render("a", "b").decode()
    found = re.search(r"<style>(.*)</style>", page, re.DOTALL)
    assert found is not None
    digest = b64encode(sha256(found[1].encode()).digest()).decode()

    policy = dict(STYLE.headers)["Content-Security-Policy"]
    assert policy.startswith(f"default-src 'none'; style-src 'sha256-{digest}'; ")
    assert "unsafe" not in policy
    assert "://" not in STYLE.sheet


def test_what_is_not_ours_is_escaped_and_never_breaks_the_page() -> None:
    hostile = "\"'><script>\ud800"

    page = STYLE.render(hostile, code(hostile) + link(hostile, hostile)).decode()
    assert "<script" not in page
    assert page.count("&lt;script&gt;") == 4
