"""`docgraph demo`: what it prints works, and what is in its data directory stays."""

from __future__ import annotations

import json
import shlex
import signal
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from pymongo import MongoClient

from docgraph.cli.demo.data import AUTHORS, COMMENTS, POSTS
from docgraph.embedded import EmbeddedMongo
from tests.process.commands import Process, run, start
from tests.process.harness import eventually
from tests.programs import require


@dataclass
class Demo:
    """A running demo."""

    process: Process
    url: str
    notices: list[str] = field(default_factory=list)

    @property
    def pasted(self) -> str:
        """The command that people are told to try."""
        eventually(lambda: any("Ctrl-C" in line for line in list(self.notices)))
        text = "".join(self.notices)
        start = text.index("curl ")
        return text[start : text.index("\n\n", start)]


@contextmanager
def run_demo(directory: Path) -> Iterator[Demo]:
    settings = (f"/core/data-directory={directory}", "/http-listener/port=0")
    process = start("demo", *(f"--set={one}" for one in settings), cwd=directory.parent)
    demo = Demo(process, "")
    reader = threading.Thread(target=demo.notices.extend, args=(process.stderr,), daemon=True)
    reader.start()
    try:
        line = process.stdout.readline()
        assert line.startswith("docgraph ready "), (line, demo.notices)
        demo.url = line.split()[2]
        yield demo
    finally:
        process.send_signal(signal.SIGINT)
        process.wait(60)
        reader.join()
        process.close()


def paste(command: str) -> Any:
    done = subprocess.run(
        ["bash", "-c", command], capture_output=True, text=True, timeout=60, check=True
    )
    return json.loads(done.stdout)


def test_the_printed_query_works_and_the_data_stays(tmp_path: Path) -> None:  # noqa: PLR0915
    """The demo of `make run`."""
    require("bash", "curl")
    directory = tmp_path / "data"
    with run_demo(directory) as demo:
        first = paste(demo.pasted)
        assert demo.url in demo.pasted
        posts = first["data"]["posts"]
        assert len(posts) == 2
        assert all(post["title"] and post["author"]["name"] for post in posts)

        told = [line for line in list(demo.notices) if '"database-found"' in line]
        assert len(told) == 1  # filling the database is no contact of its own
        (shown,) = (line.split("`")[1] for line in list(demo.notices) if "apps show" in line)
        files = shlex.split(shown)[-5:]  # after how docgraph is called here
        assert files == ["apps", "show", "blog", "--data", str(directory)]
        (tmp_path / "blog.json").write_text(run(*files, cwd=tmp_path).stdout)
        checked = run("apps", "check", "blog.json", "--database", *files[-2:], cwd=tmp_path)
        assert "warning" not in checked.stdout + checked.stderr
        advised = run("apps", "advise", *files[-2:], cwd=tmp_path)
        assert advised.returncode == 0
        assert "nothing to advise" in advised.stdout + advised.stderr

        asked = ("access", "explain", "--method=POST", "--path=/graphql/blog", *files[-2:])
        explained = run(*asked, cwd=tmp_path).stdout
        assert explained.startswith("ALLOWED: POST /graphql/blog by an unauthenticated caller")
        assert "app-blog" in explained

        uri = EmbeddedMongo.find_running(directory)
        assert uri is not None
        with MongoClient[dict[str, Any]](uri) as mongo:
            db = mongo["docgraph"]
            counts = {
                name: db[name].count_documents({}) for name in ("authors", "posts", "comments")
            }
            assert counts == {"authors": AUTHORS, "posts": POSTS, "comments": COMMENTS}
            assert "gql-apps" in db.list_collection_names()
            names = {one["name"] for one in db["authors"].find({}, {"name": 1})}
            assert not names & {one.get("name") for one in db["users"].find()}
            db["posts"].delete_many({"number": {"$gt": 10}})
            db["gql-apps"].update_one({"_id": "blog"}, {"$set": {"descriptor.description": "mine"}})

    with run_demo(directory) as demo:
        assert len(paste(demo.pasted)["data"]["posts"]) == 2
        uri = EmbeddedMongo.find_running(directory)
        assert uri is not None
        with MongoClient[dict[str, Any]](uri) as mongo:
            db = mongo["docgraph"]
            assert db["posts"].count_documents({}) == 10
            stored = db["gql-apps"].find_one({"_id": "blog"})
            assert stored is not None
            assert stored["descriptor"]["description"] == "mine"
    assert demo.process.returncode == 0
    assert EmbeddedMongo.find_running(directory) is None


@pytest.mark.parametrize("source", ["docgraph.yml:2:3", "DOCGRAPH_OVERRIDES", "--set"])
def test_the_demo_never_touches_a_configured_database(source: str, tmp_path: Path) -> None:
    arguments, environment = ["demo"], {}
    if source == "--set":
        arguments.append("--set=/mclient/connection-string=mongodb://db.example/")
    elif source == "DOCGRAPH_OVERRIDES":
        environment[source] = '/mclient/connection-string->"mongodb://db.example/"'
    else:
        text = "mclient:\n  connection-string: mongodb://db.example/\n"
        (tmp_path / "docgraph.yml").write_text(text)

    done = run(*arguments, cwd=tmp_path, environment=environment)

    assert done.returncode == 2
    assert "never into a database of yours" in done.stderr
    assert f"({source})" in done.stderr
    assert not (tmp_path / "data").exists()


@pytest.mark.parametrize("command", ["apps list", "users list", "acl list", "access matrix"])
def test_a_command_never_makes_a_database(command: str, tmp_path: Path) -> None:
    done = run(*command.split(), cwd=tmp_path)
    assert done.returncode == 1
    assert f"there is no database in {tmp_path / 'data'}" in done.stderr
    assert list(tmp_path.iterdir()) == []
