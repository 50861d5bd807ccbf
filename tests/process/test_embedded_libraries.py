"""A mongod on a system without libcurl and OpenSSL runs with those that pycurl brought along."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pymongo import MongoClient

from docgraph.embedded import EmbeddedMongo, MongodOptions
from docgraph.embedded import mongod_setup as embedded_libraries
from docgraph.embedded.mongod_setup import find_binary, find_pycurl_libraries
from docgraph.exchange.errors import StartupError
from tests.guarded_mongo import guarding
from tests.replica_set import kill

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="pycurl's libraries are for Linux")

# As the loader of a bare system: it has only what the search path leads to.
BARE = """\
#!/bin/sh
echo "$LD_LIBRARY_PATH" >> {starts}
case "$LD_LIBRARY_PATH" in *pycurl.libs*) exec {mongod} "$@";; esac
echo "$0: error while loading shared libraries: {library}: cannot open shared object file" >&2
exit 127
"""


@pytest.fixture
def mongo(tmp_path: Path) -> Iterator[EmbeddedMongo]:
    mongo = EmbeddedMongo(
        tmp_path / "data", options=MongodOptions(cache_gb=0.25, oplog_mb=64, start_timeout=60)
    )
    yield mongo
    kill(mongo)  # a clean end takes mongod a second, and is of no use
    mongo.stop()


@pytest.fixture
def starts(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """The system has no libraries; each start of mongod writes its search path into this file."""
    return pretend_bare(monkeypatch, tmp_path, "libcurl.so.4")


def pretend_bare(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, library: str) -> Path:
    starts, fake = tmp_path / "starts", tmp_path / "mongod"
    fake.write_text(BARE.format(starts=starts, mongod=find_binary(), library=library))
    fake.chmod(0o755)
    monkeypatch.setenv("DOCGRAPH_MONGOD", str(fake))
    monkeypatch.delenv("LD_LIBRARY_PATH", raising=False)
    return starts


def mapped_libraries(pid: int | None) -> set[Path]:
    """The files of libcurl and OpenSSL that a process has in its memory."""
    lines = Path(f"/proc/{pid}/maps").read_text().splitlines()
    files = {Path(line.split(maxsplit=5)[-1]) for line in lines if "/" in line}
    return {file for file in files if file.name.startswith(("libcurl", "libssl", "libcrypto"))}


def is_alive(uri: str) -> bool:
    with MongoClient[dict[str, object]](uri) as client:
        client.shop.things.insert_one({"_id": 1})
        return client.shop.things.count_documents({}) == 1


def test_mongod_runs_with_the_libraries_of_pycurl_alone_which_later_starts_know(
    starts: Path, mongo: EmbeddedMongo
) -> None:
    """And the port stays."""
    first = mongo.start()
    assert is_alive(first)
    libraries = mapped_libraries(mongo.pid)
    assert len(libraries) == 3
    assert {file.parent for file in libraries} == {find_pycurl_libraries()}
    assert "LD_LIBRARY_PATH" not in os.environ
    kill(mongo)

    assert mongo.start() == first
    assert [bool(line) for line in starts.read_text().splitlines()] == [False, True, True]


def test_a_mongod_of_tests_that_requires_logins_runs_with_them_too(
    starts: Path, tmp_path: Path, mongod_options: MongodOptions
) -> None:
    with guarding(tmp_path, mongod_options) as guarded, guarded.user(["root"]) as name:
        assert is_alive(guarded.render_uri(name, "secret"))

    assert [bool(line) for line in starts.read_text().splitlines()] == [False, True]


def test_nothing_changes_where_the_system_has_the_libraries(
    mongo_client: MongoClient[dict[str, Any]],
) -> None:
    """The system's, where it has them: then no links are made. A bare system has them made.

    The mongod of the suite is an embedded one, too.
    """
    pid = mongo_client.admin.command("serverStatus")["pid"]
    options = mongo_client.admin.command("getCmdLineOpts")["parsed"]

    lent = find_pycurl_libraries() in {file.parent for file in mapped_libraries(pid)}
    assert Path(options["storage"]["dbPath"]).with_name("lib").exists() == lent


def test_library_that_pycurl_has_not_is_named(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, mongo: EmbeddedMongo
) -> None:
    starts = pretend_bare(monkeypatch, tmp_path, "liblzma.so.5")

    with pytest.raises(StartupError) as caught:
        mongo.start()

    assert caught.value.message == "mongod cannot start: the shared library liblzma.so.5 is missing"
    assert len(starts.read_text().splitlines()) == 1


def test_without_pycurl_the_missing_library_is_named(
    monkeypatch: pytest.MonkeyPatch, starts: Path, mongo: EmbeddedMongo
) -> None:
    monkeypatch.setattr(embedded_libraries, "find_pycurl_libraries", lambda: None)

    with pytest.raises(StartupError) as caught:
        mongo.start()

    assert caught.value.message == "mongod cannot start: the shared library libcurl.so.4 is missing"
    assert caught.value.hint is not None
    assert "apt install libcurl4 libssl3" in caught.value.hint


def test_place_for_the_links_that_is_taken_is_refused(starts: Path, mongo: EmbeddedMongo) -> None:
    mongo.directory.mkdir()
    (mongo.directory / "lib").write_text("")

    with pytest.raises(StartupError, match="is not a directory"):
        mongo.start()
