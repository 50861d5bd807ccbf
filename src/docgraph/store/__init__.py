"""MongoDB: find, aggregate, write, watch, with checks and guards that cannot be skipped."""

from docgraph.store.driver.client import Client
from docgraph.store.guard.rows import Guard, Key, Rows
from docgraph.store.guard.stages import Policy, check_filter, check_pipeline
from docgraph.store.opening import open_store
from docgraph.store.provider import ClientProvider
from docgraph.store.store import Store
from docgraph.store.watch import ChangeEvents

__all__ = [
    "ChangeEvents",
    "Client",
    "ClientProvider",
    "Guard",
    "Key",
    "Policy",
    "Rows",
    "Store",
    "check_filter",
    "check_pipeline",
    "open_store",
]
