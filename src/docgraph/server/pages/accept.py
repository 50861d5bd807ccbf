"""Who gets a page: callers who name `text/html` and like nothing of ours better (RFC 9110 12.5.1).

Browsers do so for what a person opens; programs that accept anything (`*/*`), or name JSON as well,
get what they always got.
"""

from __future__ import annotations

from functools import lru_cache

from docgraph.exchange import Headers
from docgraph.exchange.headers import parse_weight
from docgraph.exchange.markup import MEDIA_TYPE

__all__ = ["wants_page"]


def wants_page(headers: Headers) -> bool:
    """Whether the caller would rather read a page than JSON."""
    if "accept" not in headers:
        return False
    return _prefers_page(",".join(headers.get_list("accept")))


@lru_cache(maxsize=256)
def _prefers_page(accept: str) -> bool:
    weights = dict(parse_weight(item) for item in accept.split(","))
    page = weights.get(MEDIA_TYPE, 0.0)
    named = [weight for name, weight in weights.items() if name.endswith("json")]
    anything = max(weights.get("*/*", 0.0), weights.get("application/*", 0.0))
    is_best = page > max(named) if named else page >= anything
    return page > 0 and is_best
