"""The rivals: other GraphQL servers on the same data, how each is set up, started and judged.

A rival that this machine cannot run says why; the others are measured without it. Ports are fixed,
as the twin's is, and the bars are the least ratios docgraph / rival that we accept.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from pymongo import MongoClient

from bench.contest import build_uvicorn_command

HERE = Path(__file__).parent
SCHEMA = HERE / "schema.graphql"
RUNGS = ("W0", "W1", "W2-100", "W2-1000", "W3", "W4", "W5")
_OLDEST_NODE = (20, 19)
_RESTHEART_DB = "restheart"


class Unavailable(Exception):
    """Why a rival cannot run on this machine."""


@dataclass(frozen=True)
class Rival(ABC):
    """A server that is not ours."""

    name: str
    port: int
    bars: Mapping[str, float] = field(default_factory=dict)
    rungs: tuple[str, ...] = RUNGS
    warm_up: float = 0.0  # seconds before the first rung

    @abstractmethod
    def set_up(self) -> None:
        """Make it ready to start, or raise `Unavailable`."""

    @abstractmethod
    def build_command(self) -> list[str]:
        """How it is started."""

    def build_environment(self, uri: str) -> dict[str, str]:
        """What it is told."""
        return {"MONGO_URI": uri, "PORT": str(self.port), "NODE_ENV": "production"}


@dataclass(frozen=True)
class PythonRival(Rival):
    """An ASGI application of this package, on the server that the twin runs on."""

    packages: tuple[str, ...] = ()

    @property
    def module(self) -> str:
        """Where its application is."""
        return f"bench.rivals.{self.name}_app"

    def set_up(self) -> None:
        missing = [package for package in self.packages if find_spec(package) is None]
        if missing:
            raise Unavailable(f"{', '.join(missing)} is not installed: pip install -e '.[bench]'")

    def build_command(self) -> list[str]:
        served = build_uvicorn_command(f"{self.module}:app", self.port)
        return [*served, "--loop", "uvloop", "--http", "httptools"]


@dataclass(frozen=True)
class NodeRival(Rival):
    """A folder with a `package.json` and a `server.mjs`."""

    @property
    def folder(self) -> Path:
        """Where its server is."""
        return HERE / self.name

    def set_up(self) -> None:
        _require_node()
        manifest, stamp = self.folder / "package.json", self.folder / "node_modules" / ".set-up"
        if stamp.exists() and stamp.stat().st_mtime > manifest.stat().st_mtime:
            return
        # No lock file: it would record where the packages came from. The versions are exact.
        command = ["npm", "install", "--no-package-lock", "--no-audit", "--no-fund"]
        done = subprocess.run(command, cwd=self.folder, capture_output=True, text=True, check=False)
        if done.returncode:
            reason = (done.stderr.strip().splitlines() or ["it says nothing"])[-1]
            raise Unavailable(f"npm install failed: {reason}")
        stamp.touch()

    def build_command(self) -> list[str]:
        return ["node", str(self.folder / "server.mjs")]


@dataclass(frozen=True)
class RestheartRival(Rival):
    """A built distribution of RESTHeart, in the folder that RESTHEART_HOME names."""

    warm_up: float = 120.0

    @property
    def jar(self) -> Path:
        """The server."""
        return Path(os.environ.get("RESTHEART_HOME", ""), "restheart.jar")

    def set_up(self) -> None:
        if "RESTHEART_HOME" not in os.environ:
            raise Unavailable("RESTHEART_HOME names no built distribution")
        if not self.jar.exists() or not shutil.which("java"):
            raise Unavailable(f"{self.jar} and java are needed")

    def build_command(self) -> list[str]:
        return ["java", "-jar", str(self.jar)]

    def build_environment(self, uri: str) -> dict[str, str]:
        store_restheart_app(uri)
        options = {
            "/mclient/connection-string": f'"{uri}"',
            "/http-listener/port": str(self.port),
            "/graphql/db": f'"{_RESTHEART_DB}"',
            "/fullAuthorizer/enabled": "true",
            "/fullAuthorizer/authentication-required": "false",
            "/logging/requests-log-mode": "0",
        }
        return {"RHO": ";".join(f"{path}->{value}" for path, value in options.items())}


def store_restheart_app(uri: str) -> None:
    """Store the app of the ladder as RESTHeart wants it, with batching where parents are many."""
    app = json.loads((HERE.parent / "app.json").read_text())
    for fields in app["mappings"].values():
        for mapping in fields.values():
            if isinstance(mapping, dict) and "$fk" in json.dumps(mapping):
                mapping["dataLoader"] = {"batching": True, "caching": True}
    app["descriptor"] = {"name": app["_id"], "uri": app["_id"], "enabled": True}
    with MongoClient[dict[str, Any]](uri) as client:
        client[_RESTHEART_DB]["gql-apps"].replace_one({"_id": app["_id"]}, app, upsert=True)


def _require_node() -> None:
    oldest = ".".join(map(str, _OLDEST_NODE))
    if not (shutil.which("node") and shutil.which("npm")):
        raise Unavailable(f"there is no node with npm on this machine ({oldest} or newer)")
    version = subprocess.run(
        ["node", "--version"], capture_output=True, text=True, check=True
    ).stdout.strip()
    if tuple(map(int, version.removeprefix("v").split(".")[:2])) < _OLDEST_NODE:
        raise Unavailable(f"node {version} is too old ({oldest} or newer)")


RIVALS: tuple[Rival, ...] = (
    NodeRival(
        "mercurius",
        18_392,
        bars={"W1": 1.3, "W2-1000": 3, "W3": 1.8, "W4": 1.8, "W5": 1.8},
    ),
    NodeRival("apollo", 18_393, bars={"W3": 3}),
    PythonRival("ariadne", 18_394, bars={"W3": 7}, packages=("ariadne", "aiodataloader")),
    PythonRival("strawberry", 18_395, bars={"W3": 7}, packages=("strawberry",)),
    RestheartRival("restheart", 18_396),
)


def set_up_all() -> tuple[list[Rival], dict[str, list[str]]]:
    """Those that can start here, and the names of the others by the reason."""
    ready: list[Rival] = []
    left_out: dict[str, list[str]] = {}
    for rival in RIVALS:
        try:
            rival.set_up()
        except Unavailable as reason:
            left_out.setdefault(str(reason), []).append(rival.name)
        else:
            ready.append(rival)
    return ready, left_out
