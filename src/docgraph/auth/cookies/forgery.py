"""Requests that a foreign page makes a browser send, with a cookie that the page cannot see.

`SameSite=Strict` keeps the cookie at home in the first place. Behind it stands what the browser
says of the page (`exchange/pages.py`). A link may lead here from elsewhere (`Sec-Fetch-Mode`);
images, scripts and frames of elsewhere get nothing. Where nothing is said, a body must not be of a
type that an HTML form can send; logging out takes any body, since it reads none.
"""

from __future__ import annotations

from typing import Final

from docgraph.exchange import Request
from docgraph.exchange.errors import Forbidden
from docgraph.exchange.pages import Page

__all__ = ["check_forgery", "foreign_page"]

_WINDOW: Final = "document"  # what a navigation that is not in a frame asks for
_READING: Final = frozenset({"GET", "HEAD", "OPTIONS"})
# What can be sent to another origin without asking it first (Fetch 2.2.2).
_SIMPLE: Final = frozenset(
    {"application/x-www-form-urlencoded", "multipart/form-data", "text/plain"}
)


def check_forgery(request: Request, *, takes_forms: bool = False) -> None:
    """Refuse a request whose cookie counts but whose page should not."""
    page = request.page
    if request.method in _READING:
        if page is Page.FOREIGN and not _is_link(request):
            raise foreign_page()
    elif page is Page.FOREIGN:
        raise foreign_page()
    elif page is Page.UNKNOWN and not takes_forms and _could_be_form(request):
        raise Forbidden("the cookie came with a content type that forms can send")


def _is_link(request: Request) -> bool:
    """Whether the user goes from elsewhere to here, in a window or tab of its own.

    Frames, images, scripts and the like of a foreign page name no origin either.
    """
    headers = request.headers
    is_navigation = (headers.get("sec-fetch-mode") or "").strip().lower() == "navigate"
    is_frame = (headers.get("sec-fetch-dest") or _WINDOW).strip().lower() != _WINDOW
    return "origin" not in headers and is_navigation and not is_frame


def foreign_page() -> Forbidden:
    """The refusal of what a page of somebody else has a browser send."""
    return Forbidden(
        "a foreign page sent the request",
        hint="list its origin in cors.allow-origins if it may use the cookie",
    )


def _could_be_form(request: Request) -> bool:
    """Whether it has a body, of a type that a page may send anywhere, or of none."""
    length = request.headers.get("content-length")
    has_content = "transfer-encoding" in request.headers or length not in (None, "0")
    kind = request.content_type
    return has_content and (not kind or kind in _SIMPLE)
