"""Draw the figures of the pages as SVG, from text and from the table of the bench.

    python tools/figures.py

The same input gives the same bytes; a test compares them with the files in `docs/images`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from html import escape
from pathlib import Path
from typing import Final

__all__ = ["draw_figures"]

ROOT: Final = Path(__file__).parents[1]
IMAGES: Final = ROOT / "docs/images"
WIDTH: Final = 720
STEP: Final = 62  # from one box to the next
BAR: Final = 22
# A step, and what it does. `ARCHITECTURE.md` has them in detail.
REQUEST: Final = (
    ("Receive", "within the limits of connections, headers and body"),
    ("Route", "the service with the longest path: GraphQL, REST, MCP, metrics"),
    ("Authenticate", "password, token, JWT or cookie: an account, anonymous, or 401"),
    ("Parse", "once, into the value that is executed"),
    ("Authorize", "no vetoer denies, one rule allows and adds its row filter: 401, 403"),
    ("Execute", "GraphQL: from the cache, or one command to MongoDB per relation"),
    ("Respond", "JSON or CSV, CORS, compression, request id"),
)
BATCHING: Final = (
    ("The query", "{ posts(limit: 100) { title author { name } } }"),
    ("1: find posts", "100 documents with title and authorId"),
    ("Collect the keys", "the different authorIds of all 100 posts"),
    ("2: find authors", "{_id: {$in: [the keys]}}, once for all posts"),
    ("Join in memory", "each post gets its author: 2 commands instead of 101"),
)
# Fits light and dark pages, and needs no font.
_STYLE: Final = (
    "text{font:14px system-ui,sans-serif;fill:#1f2933}.bold{font-weight:600}"
    "rect.box{fill:#eef2f7;stroke:#8796a8}.line{stroke:#5c6b7d;fill:none}"
    ".ours{fill:#3b6fd4}.other{fill:#9aa7b6}"
    "@media(prefers-color-scheme:dark){text{fill:#e4e9ef}rect.box{fill:#26303b;stroke:#8796a8}"
    ".line{stroke:#a9b6c4}.ours{fill:#7aa5f5}.other{fill:#66737f}}"
)
_ROW: Final = re.compile(r"^\| (\w+(?:-\d+)?) \| ([\d.]+) \| ([\d.]+) \| [\d.]+.*\|$", re.MULTILINE)


def draw_figures() -> dict[str, str]:
    """Return the figures by the names of their files."""
    measured = _ROW.findall((ROOT / "bench/README.md").read_text())
    return {
        "request.svg": draw_flow("The path of a request", REQUEST),
        "batching.svg": draw_flow("How docgraph batches a relation", BATCHING),
        "bench.svg": draw_bars([(rung, float(own), float(twin)) for rung, own, twin in measured]),
    }


def draw_flow(title: str, steps: Sequence[tuple[str, str]]) -> str:
    """Return boxes from the top to the bottom, with arrows between them."""
    parts: list[str] = []
    for number, (name, what) in enumerate(steps):
        top = 10 + number * STEP
        if number:
            parts.append(f'<path class="line" d="M360 {top - 20}v16m-4 -6l4 6l4 -6"/>')
        parts += [
            f'<rect class="box" x="10" y="{top}" width="{WIDTH - 20}" height="40" rx="6"/>',
            f'<text class="bold" x="26" y="{top + 25}">{escape(name)}</text>',
            f'<text x="220" y="{top + 25}">{escape(what)}</text>',
        ]
    return _wrap(title, 10 + len(steps) * STEP - 12, parts)


def draw_bars(measured: Sequence[tuple[str, float, float]]) -> str:
    """Return the CPU time of docgraph and of the hand-written server for each rung."""
    scale = (WIDTH - 160) / max(max(own, twin) for _, own, twin in measured)
    parts = [part for at, row in enumerate(measured) for part in _draw_pair(at, row, scale)]
    legend = 26 + len(measured) * 2 * BAR
    parts += [
        f'<rect class="ours" x="90" y="{legend - 12}" width="14" height="14"/>',
        f'<text x="110" y="{legend}">docgraph</text>',
        f'<rect class="other" x="200" y="{legend - 12}" width="14" height="14"/>',
        f'<text x="220" y="{legend}">hand-written server (CPU ms, less is better)</text>',
    ]
    return _wrap(
        "CPU time per request of docgraph and of a hand-written server", legend + 14, parts
    )


def _draw_pair(at: int, row: tuple[str, float, float], scale: float) -> Iterator[str]:
    rung, *times = row
    top = 10 + at * 2 * BAR
    yield f'<text class="bold" x="10" y="{top + 24}">{rung}</text>'
    for kind, number, value in zip(("ours", "other"), (0, 1), times, strict=True):
        y, length = top + number * (BAR - 6), max(2, round(value * scale))
        yield f'<rect class="{kind}" x="90" y="{y}" width="{length}" height="{BAR - 8}"/>'
        yield f'<text x="{96 + length}" y="{y + 12}">{value:.2f}</text>'


def _wrap(title: str, height: int, parts: Sequence[str]) -> str:
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" role="img">'
        f"<title>{escape(title)}</title><style>{_STYLE}</style>"
    )
    return "\n".join([head, *parts, "</svg>"]) + "\n"


if __name__ == "__main__":
    for name, figure in draw_figures().items():
        (IMAGES / name).write_text(figure)
