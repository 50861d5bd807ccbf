"""Tests for apps: a running application on an embedded MongoDB, and a client for it.

with running_mongo() as uri, running_app(uri) as app:
    assert AppClient(app).query("{ posts { title } }").data == {"posts": []}
"""

from __future__ import annotations

from docgraph.testing.app_client import AppAnswer, AppClient
from docgraph.testing.running import RunningApp, running_app, running_mongo

__all__ = ["AppAnswer", "AppClient", "RunningApp", "running_app", "running_mongo"]
