"""HTML pages of docgraph: shared style; a content security policy against XSS and clickjacking.

A page is one HTML text that needs no script, no network and no other file. The author of a page
escapes all foreign text; the policy protects even where that was forgotten.
"""

from __future__ import annotations

from base64 import b64encode
from dataclasses import dataclass
from functools import cached_property
from hashlib import sha256
from html import escape
from typing import Final

MEDIA_TYPE: Final = "text/html"

_LOOK: Final = """
:root{color-scheme:light dark;--paper:#fbfaf7;--ink:#23252b;--soft:#5b5f68;--line:#dedbd3;
--panel:#f2f0ea;--accent:#1b6b50}
@media(prefers-color-scheme:dark){:root{--paper:#17191d;--ink:#e7e5e0;--soft:#a9acb4;
--line:#363a41;--panel:#202329;--accent:#7ecbab}}
*{box-sizing:border-box}
body{font:16px/1.55 system-ui,sans-serif;margin:0 auto;padding:3rem 1.25rem;
background:var(--paper);color:var(--ink);overflow-wrap:anywhere}
h1{font-size:1.6rem;line-height:1.25;margin:0 0 .5rem}
h2{font-size:1.05rem;line-height:1.25;margin:2.25rem 0 .5rem}
p{margin:.5rem 0}a{color:var(--accent);text-underline-offset:.15em}
a:focus-visible,summary:focus-visible{outline:2px solid var(--accent);outline-offset:2px}
code,pre{font:.9em/1.5 ui-monospace,monospace}
pre{background:var(--panel);border-left:3px solid var(--accent);margin:.75rem 0;
padding:.6rem .9rem;white-space:pre-wrap}
""".strip()


@dataclass(frozen=True)
class PageStyle:
    """The style of one kind of page: the shared part and its own."""

    own: str

    @cached_property
    def sheet(self) -> str:
        """The complete style sheet, as it appears in the page."""
        return f"{_LOOK}\n{self.own.strip()}"

    @cached_property
    def headers(self) -> tuple[tuple[str, str], ...]:
        """The headers of the page: the policy allows exactly this style and nothing else."""
        digest = b64encode(sha256(self.sheet.encode()).digest()).decode()
        policy = (
            f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; "
            "form-action 'none'; frame-ancestors 'none'"
        )
        return (("Content-Security-Policy", policy), ("Referrer-Policy", "no-referrer"))

    def render(self, title: str, content: str) -> bytes:
        """Render the page; `title` is a text, `content` is HTML."""
        return (
            '<!doctype html><html lang="en"><head><meta charset="utf-8">'
            '<meta name="viewport" content="width=device-width, initial-scale=1">'
            f"<title>{escape(title)}</title><style>{self.sheet}</style></head>"
            f"<body>{content}</body></html>\n"
        ).encode("utf-8", "replace")  # lone surrogates appear as question marks


def code(text: str) -> str:
    return f"<code>{escape(text)}</code>"


def link(path: str, text: str) -> str:
    """Render a link to an encoded path of this instance as HTML."""
    return f'<a href="{escape(path)}">{escape(text)}</a>'
