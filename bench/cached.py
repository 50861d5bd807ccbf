"""W17: answers from the cache beside a request without data, and what a miss costs.

`miss`: all requests are different, so none of them was missed before and no answer is stored. A
turn that would send a request again is refused. This is what the bar is for. `twice`: so many
requests are sent, then the same ones once more, then others: about half of them are second misses,
whose answers are stored; none is a hit. Both are compared with the same requests to the same app
without a cache, in short turns one after the other: what else the machine does slows both.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from bench.workloads import WORKLOADS

APP = "cached"
PATH = f"/graphql/{APP}"
FEW_FIT = {"/graphql/cache": '{"max-bytes": 20000000}'}
"""With this, the cache is full soon."""
TURN_SECONDS = 0.25
LEAST_TURNS = 20
_AGAIN = 40  # requests, fewer than the cache remembers, more than are sent at the same time

_BY_ID = {one.id: one for one in WORKLOADS}

HITS = tuple(replace(_BY_ID[id], id=f"W17-{id}", path=PATH) for id in ("W0", "W1", "W3"))
_LISTS = "query($n: Int!) { posts(limit: $n) { id title author { id name } } }"
_VARIED = (
    replace(_BY_ID["W1"], varied=tuple({"id": number} for number in range(5_000))),
    replace(_BY_ID["W3"], query=_LISTS, varied=tuple({"n": 60 + n % 81} for n in range(5_000))),
)
_TWICE = tuple(replace(one, again=_AGAIN) for one in _VARIED)
MISSES = tuple(
    (one, replace(one, id=f"W17-{kind}-{one.id}", path=PATH))
    for kind, workloads in (("miss", _VARIED), ("twice", _TWICE))
    for one in workloads
)
IDS = (*HITS, *(missed for _, missed in MISSES))


def build_app(app: dict[str, Any]) -> dict[str, Any]:
    """Return the app of the ladder with a cache."""
    descriptor = {**app.get("descriptor", {}), "uri": APP, "cache": {"enabled": True}}
    return {**app, "_id": APP, "descriptor": descriptor}
