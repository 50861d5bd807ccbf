"""MongoDB access: find, aggregate, write, watch, with checks and guards that cannot be skipped."""

from docgraph.store.change_stream import ChangeEvents
from docgraph.store.driver.client import DriverClient
from docgraph.store.guard.shield import RevealKey, Rows
from docgraph.store.guard.stage_checks import Policy, check_filter, check_pipeline
from docgraph.store.store import ClientProvider, Store, open_store

__all__ = [
    "ChangeEvents",
    "ClientProvider",
    "DriverClient",
    "Policy",
    "RevealKey",
    "Rows",
    "Store",
    "check_filter",
    "check_pipeline",
    "open_store",
]
