"""Commands are listed, described and completed without importing what they work with."""

from __future__ import annotations

import subprocess
import sys

LOOK = """
import sys
from importlib import import_module
from docgraph.cli import COMMANDS

for name in COMMANDS:
    import_module(f"docgraph.cli.{name}")
import_module("docgraph.cli.extra").list_plugin_commands()
heavy = {"pymongo", "bson", "graphql", "httptools", "wsproto", "jwt", "cryptography", "bcrypt"}
heavy |= {"structlog"}
print(*sorted(heavy & set(sys.modules)))
"""


def test_the_help_of_all_commands_imports_nothing_heavy() -> None:
    done = subprocess.run(
        [sys.executable, "-c", LOOK], capture_output=True, text=True, check=True, timeout=60
    )

    assert done.stdout.split() == []
