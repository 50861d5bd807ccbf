"""Who gets a page: callers who name `text/html` and like nothing of ours better (RFC 9110 12.5.1).

Browsers do so for what a person opens; programs that accept anything (`*/*`), or name JSON as well,
get what they always got.
"""

from __future__ import annotations

import re
from functools import lru_cache

from docgraph.exchange import Headers
from docgraph.exchange.headers import parse_weight
from docgraph.exchange.markup import MEDIA_TYPE

__all__ = ["wants_page"]

_ANYTHING = ("*/*", "application/*")
# What browsers name beside pages, and some of them before: we have nothing of the kind.
_BESIDE_PAGES = re.compile(r"xml\Z|^image/")


def wants_page(headers: Headers) -> bool:
    """Whether the caller would rather read a page than JSON."""
    if "accept" not in headers:
        return False
    return _prefers_page(",".join(headers.get_list("accept")))


@lru_cache(maxsize=256)
def _prefers_page(accept: str) -> bool:
    weights = dict(parse_weight(item) for item in accept.split(","))
    page = weights.pop(MEDIA_TYPE, 0.0)
    json = [weights.pop(name) for name in tuple(weights) if name.endswith("json")]
    if json:  # what is named counts, and not what is said of anything
        weights = {name: weight for name, weight in weights.items() if name not in _ANYTHING}
    others = [weight for name, weight in weights.items() if not _BESIDE_PAGES.search(name)]
    return page > max(json, default=0.0) and page >= max(others, default=0.0)
