"""Process runtime: blocking work in threads, background tasks, caches, shared memory of workers."""

from docgraph.runtime.admission_queue import AdmissionQueue
from docgraph.runtime.after_commit import KeyedLock
from docgraph.runtime.blocking import Blocking, Lane, count_cores, run_blocking
from docgraph.runtime.cache import AFTER_READ, AFTER_WRITE, LoadingCache, LruDict, close_all
from docgraph.runtime.instance import Instance, create_instance, join_instance
from docgraph.runtime.rate_buckets import Buckets, Quota, RateRequest, RateResult
from docgraph.runtime.shared_memory import Generations, WindowCounters
from docgraph.runtime.tasks import Tasks, cancel_until_over, watch_loop

__all__ = [
    "AFTER_READ",
    "AFTER_WRITE",
    "AdmissionQueue",
    "Blocking",
    "Buckets",
    "Generations",
    "Instance",
    "KeyedLock",
    "Lane",
    "LoadingCache",
    "LruDict",
    "Quota",
    "RateRequest",
    "RateResult",
    "Tasks",
    "WindowCounters",
    "cancel_until_over",
    "close_all",
    "count_cores",
    "create_instance",
    "join_instance",
    "run_blocking",
    "watch_loop",
]
