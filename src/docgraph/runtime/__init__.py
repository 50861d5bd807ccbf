"""What a process runs on: blocking work, background tasks, caches, and what workers share."""

from docgraph.runtime.blocking import Blocking, Lane, count_cores, run_blocking
from docgraph.runtime.buckets import Buckets, Claim, Quota, Share
from docgraph.runtime.cache import (
    AFTER_READ,
    AFTER_WRITE,
    Expiry,
    LoadingCache,
    close_all,
)
from docgraph.runtime.counters import WindowCounters
from docgraph.runtime.gate import Gate
from docgraph.runtime.generations import Generation, Generations
from docgraph.runtime.instance import Instance, create_instance
from docgraph.runtime.lru import LruDict
from docgraph.runtime.tasks import Tasks, cancel_until_over, watch_loop
from docgraph.runtime.turns import Turns

__all__ = [
    "AFTER_READ",
    "AFTER_WRITE",
    "Blocking",
    "Buckets",
    "Claim",
    "Expiry",
    "Gate",
    "Generation",
    "Generations",
    "Instance",
    "Lane",
    "LoadingCache",
    "LruDict",
    "Quota",
    "Share",
    "Tasks",
    "Turns",
    "WindowCounters",
    "cancel_until_over",
    "close_all",
    "count_cores",
    "create_instance",
    "run_blocking",
    "watch_loop",
]
