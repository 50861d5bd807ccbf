"""The README as a package index shows it: links into the repository would lead nowhere there."""

from __future__ import annotations

import re

__all__ = ["render_for_index"]

_IMAGE = re.compile(r"!\[[^\]]*\]\((?!https?:)[^)]*\)\n\n")
# [text](docs/page.md) and [text](#part) become their text; addresses of the web stay.
_INSIDE = re.compile(r"\[([^\]]+)\]\((?!https?:)[^)]*\)")


def render_for_index(text: str) -> str:
    """Return the text without the links and images that only a checkout has."""
    return _INSIDE.sub(r"\1", _IMAGE.sub("", text))
