"""How messages are sent to a collector, which may be any program, or one that means no good.

Of its answer nothing counts but the status: the rest is not kept, and read for as long as a message
may take at most. A redirect is a refusal: the library would take it for success, and what was
sent would be lost without a word. No reason has an address or a header in it, which may be secrets.
"""

from __future__ import annotations

import time
from typing import Any, Final

import requests
from requests.exceptions import InvalidHeader, InvalidSchema, InvalidURL, MissingSchema
from urllib3.exceptions import HTTPError

__all__ = ["CollectorSession"]

_LARGEST_ANSWER: Final = 64 * 1024  # bytes; a collector has little to say
_DEFAULT_SECONDS: Final = 10.0
_FIRST_REDIRECT, _FIRST_ERROR = 300, 400


class CollectorSession(requests.Session):
    """Connections to a collector."""

    def request(
        self, method: str, url: str | bytes, *others: Any, **options: Any
    ) -> requests.Response:
        """Send a message and return how it was taken; raises where it was not."""
        end = time.monotonic() + (options.get("timeout") or _DEFAULT_SECONDS)
        try:
            response = super().request(method, url, *others, **{**options, "stream": True})
        except (InvalidHeader, UnicodeError):
            raise InvalidHeader("a header for the collector cannot be sent as it is") from None
        except (InvalidSchema, InvalidURL, MissingSchema):
            raise InvalidURL("the address of the collector cannot be understood") from None
        _pass_over(response, end)
        status = response.status_code
        if _FIRST_REDIRECT <= status < _FIRST_ERROR:
            del response  # who keeps the error would keep the connection
            raise requests.TooManyRedirects(
                f"it answers with {status}, and redirects are not followed"
            )
        return response


def _pass_over(response: requests.Response, end: float) -> None:
    """Read what is left of a small answer, so that the connection can be used again."""
    left = _LARGEST_ANSWER
    try:
        while left > 0 and time.monotonic() < end:
            piece = response.raw.read1(left)  # as it is: nothing is unpacked
            if not piece:
                response.raw.release_conn()
                return
            left -= len(piece)
    except (HTTPError, OSError):
        pass  # it was taken, and how the answer ends is of no interest
    response.close()
