"""Tests for apps: a running application on an embedded MongoDB, and a client for it.

with running_mongo() as uri, running_app(uri) as app:
    assert AppClient(app).query("{ posts { title } }").data == {"posts": []}
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from docgraph.testing.app_client import AppAnswer, AppClient
    from docgraph.testing.running import RunningApp, running_app, running_mongo

__all__ = ["AppAnswer", "AppClient", "RunningApp", "running_app", "running_mongo"]

if not TYPE_CHECKING:  # a checker of types would take any name for one of ours

    def __getattr__(name):
        """Return the exported name; the server is imported at the first use, not for `--help`."""
        if name not in __all__:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        home = "app_client" if name in {"AppAnswer", "AppClient"} else "running"
        return getattr(import_module(f"{__name__}.{home}"), name)
