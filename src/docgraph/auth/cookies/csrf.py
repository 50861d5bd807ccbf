"""CSRF protection for cookie-authenticated requests.

`SameSite=Strict` is the first defense: the browser does not send the cookie with requests of
foreign pages. The second is what the browser reports about the page (`exchange/origin.py`). Links
from elsewhere are accepted (`Sec-Fetch-Mode`); images, scripts and frames are not. When the browser
reports nothing, a body must not have a type that an HTML form can send. Logging out accepts any
body, since it reads none.
"""

from __future__ import annotations

from typing import Final

from docgraph.exchange import Request
from docgraph.exchange.errors import Forbidden
from docgraph.exchange.origin import RequestOrigin

_WINDOW: Final = "document"  # the destination of a navigation that is not in a frame
_READING: Final = frozenset({"GET", "HEAD", "OPTIONS"})
# Types that a page can send to another origin without a preflight (Fetch 2.2.2).
_SIMPLE: Final = frozenset(
    {"application/x-www-form-urlencoded", "multipart/form-data", "text/plain"}
)


def check_forgery(request: Request, *, takes_forms: bool = False) -> None:
    """Reject a request that is authenticated by cookie and sent by a foreign page."""
    page = request.page
    if request.method in _READING:
        if page is RequestOrigin.FOREIGN and not _is_link(request):
            raise foreign_page()
    elif page is RequestOrigin.FOREIGN:
        raise foreign_page()
    elif page is RequestOrigin.UNKNOWN and not takes_forms and _could_be_form(request):
        raise Forbidden("the cookie came with a content type that forms can send")


def _is_link(request: Request) -> bool:
    """Return whether the user follows a link from elsewhere, in a window or tab.

    Frames, images, scripts and the like of a foreign page send no origin either.
    """
    headers = request.headers
    is_navigation = (headers.get("sec-fetch-mode") or "").strip().lower() == "navigate"
    is_frame = (headers.get("sec-fetch-dest") or _WINDOW).strip().lower() != _WINDOW
    return "origin" not in headers and is_navigation and not is_frame


def foreign_page() -> Forbidden:
    """Build the rejection of a request that a foreign page sends."""
    return Forbidden(
        "a foreign page sent the request",
        hint="list its origin in cors.allow-origins if it may use the cookie",
    )


def _could_be_form(request: Request) -> bool:
    """Return whether it has a body of a type that a page may send anywhere, or of no type."""
    length = request.headers.get("content-length")
    has_content = "transfer-encoding" in request.headers or length not in (None, "0")
    kind = request.content_type
    return has_content and (not kind or kind in _SIMPLE)
