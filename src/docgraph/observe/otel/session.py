"""HTTP session to an OTLP collector, which is not trusted.

Only the status of its response counts. The rest is not stored, and it is read no longer than a
message may take. A redirect is a rejection: the library would take it for success, and the data
would be lost silently. No error text contains an address or a header, which may be secrets.
"""

from __future__ import annotations

import time
from typing import Any, Final

import requests
from requests.exceptions import InvalidHeader, InvalidSchema, InvalidURL, MissingSchema
from urllib3.exceptions import HTTPError

_LARGEST_ANSWER: Final = 64 * 1024  # bytes; responses of collectors are short
_DEFAULT_SECONDS: Final = 10.0
_FIRST_REDIRECT, _FIRST_ERROR = 300, 400


class CollectorSession(requests.Session):
    """Connections to a collector."""

    def request(
        self, method: str, url: str | bytes, *others: Any, **options: Any
    ) -> requests.Response:
        """Send a message and return the response; raise an error if it was not accepted."""
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
            del response  # a stored error would keep the connection open
            raise requests.TooManyRedirects(
                f"it answers with {status}, and redirects are not followed"
            )
        return response


def _pass_over(response: requests.Response, end: float) -> None:
    """Read the rest of a small response, so that the connection can be reused."""
    left = _LARGEST_ANSWER
    try:
        while left > 0 and time.monotonic() < end:
            piece = response.raw.read1(left)  # raw: nothing is decompressed
            if not piece:
                response.raw.release_conn()
                return
            left -= len(piece)
    except (HTTPError, OSError):
        pass  # the message was accepted; the end of the response does not matter
    response.close()
