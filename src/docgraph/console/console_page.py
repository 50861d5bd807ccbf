"""HTML pages: the one that loads the console, and the one that says how to build it."""

from __future__ import annotations

from html import escape
from typing import Any, Final

import orjson

from docgraph.console.site import Manifest
from docgraph.exchange.markup import PageStyle, code

# Only our style sheet: those of the editors are objects of the browser, which need no exception.
# Style attributes need one: a browser writes them itself into a text that is edited.
_POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; style-src-attr 'unsafe-inline'; "
    "connect-src 'self'; img-src 'self' data:; font-src 'self'; base-uri 'none'; "
    "form-action 'none'; frame-ancestors 'none'"
)
HEADERS: Final = (
    ("Content-Security-Policy", _POLICY),
    ("Referrer-Policy", "no-referrer"),
    ("X-Frame-Options", "DENY"),
    ("Cross-Origin-Opener-Policy", "same-origin"),
)

_STYLE: Final = PageStyle("body{max-width:42rem}")
HINT_HEADERS: Final = (*_STYLE.headers, ("Cache-Control", "no-store"))


def render_index(manifest: Manifest, base: str, settings: dict[str, Any]) -> bytes:
    """Render the page: only the URLs of its script, its style and the services."""
    at = f"{escape(base)}/assets"
    preload = "".join(
        f'<link rel="modulepreload" href="{at}/{escape(name)}">' for name in manifest.preload
    )
    embedded = escape(orjson.dumps(settings).decode())
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        '<meta name="color-scheme" content="light dark">'
        f'<meta name="docgraph-settings" content="{embedded}">'
        f"<title>{escape(str(settings['title']))}</title>"
        '<link rel="icon" href="data:,">'
        f'<link rel="stylesheet" href="{at}/{escape(manifest.style)}">{preload}'
        f'<script type="module" src="{at}/{escape(manifest.script)}"></script></head>'
        '<body><div id="console"></div><noscript>The console needs JavaScript.</noscript>'
        "</body></html>\n"
    ).encode()


def render_hint() -> bytes:
    """Render the page that is shown before a build."""
    return _STYLE.render(
        "The console is not built",
        "<h1>The console is not built</h1>"
        "<p>The server works without it. In a checkout of docgraph, build it with</p>"
        f"<pre>make console</pre><p>which needs Node 20.19 or newer, or takes Node from PyPI. "
        "Then load this page again; the server need not be restarted. Packages of docgraph "
        f"contain it already. To switch this address off, set {code('console.enabled')} to "
        f"{code('false')}.</p>",
    )
