"""The core without the packages that build on it: what needs them says so, the rest works."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from pymongo import MongoClient

from tests.process.harness import request, run_server

Mongo = MongoClient[dict[str, object]]

# As if they were not installed: their entry points are not found, and nothing can import them.
HIDING = """
import importlib.metadata, sys
listed = importlib.metadata.distributions
class Hidden:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("docgraph_workbench", "docgraph_migrate"):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
sys.meta_path.insert(0, Hidden())
importlib.metadata.distributions = lambda **given: (
    one for one in listed(**given)
    if one.metadata["Name"] not in ("docgraph-workbench", "docgraph-migrate")
)
"""


@pytest.fixture
def hidden(tmp_path: Path) -> dict[str, str]:
    """The environment of a process that has the core alone."""
    (tmp_path / "hiding").mkdir()
    (tmp_path / "hiding" / "sitecustomize.py").write_text(HIDING)
    return {"PYTHONPATH": str(tmp_path / "hiding")}


def run(hidden: dict[str, str], cwd: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run a command of the core alone."""
    return subprocess.run(
        [sys.executable, "-m", "docgraph", *arguments],
        cwd=cwd,
        env={**os.environ, **hidden},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


@pytest.mark.parametrize(
    ("arguments", "package"),
    [
        (("apps", "infer", "--out", "here"), "docgraph-workbench"),
        (("apps", "advise"), "docgraph-workbench"),
        (("apps", "check", "--live"), "docgraph-workbench"),
        (("access", "fuzz", "movies", "--anonymous"), "docgraph-workbench"),
        (("access", "fuzz", "--help"), "docgraph-workbench"),
        (("migrate", "restheart", "old.yml"), "docgraph-migrate"),
    ],
)
def test_a_command_names_the_package_that_it_needs(
    hidden: dict[str, str], tmp_path: Path, arguments: tuple[str, ...], package: str
) -> None:
    """Decision 65."""
    done = run(hidden, tmp_path, *arguments)

    assert done.returncode == 2, done.stderr
    extra = package.removeprefix("docgraph-")
    assert f"needs the package {package}, which is not installed" in done.stderr
    assert f"pip install 'docgraph[{extra}]'" in done.stderr


def test_help_lists_the_commands_that_can_run(hidden: dict[str, str], tmp_path: Path) -> None:
    done = run(hidden, tmp_path, "apps", "--help")

    assert done.returncode == 0
    assert "  check " in done.stdout
    assert "infer" not in done.stdout


def test_the_server_runs_and_shows_only_the_tools_that_it_has(
    hidden: dict[str, str], mongo_uri: str, database: str
) -> None:
    settings = {
        "mclient": {"connection-string": mongo_uri},
        "graphql": {"db": database},
        "dbRealmAuthenticator": {"users-db": database},
        "dbAclAuthorizer": {"acl-db": database},
        "fullAuthorizer": {"enabled": True, "authentication-required": False},
    }
    with (
        run_server(settings, preloaded=False, PYTHONPATH=hidden["PYTHONPATH"]) as server,
        server.connect() as wire,
    ):
        body = json.dumps({"definition": {"_id": "a"}}).encode()
        wire.send(request("POST", "/_tools/check", body, content_type="application/json"))
        assert wire.read().status == 200
        wire.send(request("POST", "/_tools/infer", b"{}", content_type="application/json"))
        answer = wire.read()
        assert answer.status == 404
        assert answer.json["hint"] == "there are check, draft, plan, matrix, history, realm, rules"
        paths = wire.get("/openapi.json").json["paths"]
        assert "/_tools/check" in paths
        assert not {"/_tools/infer", "/_tools/advise"} & paths.keys()
