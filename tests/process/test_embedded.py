"""The embedded MongoDB as real processes: keeping data and port, dying well, clear refusals."""

from __future__ import annotations

import json
import logging
import os
import shutil
import signal
import socket
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from unittest.mock import patch

import psutil
import pytest
from blockbuster import BlockingError
from pymongo import MongoClient

from docgraph.embedded import EmbeddedMongo, Keeper, MongodOptions, mongod_process
from docgraph.embedded.mongod_process import Mongod, await_end
from docgraph.embedded.mongod_setup import find_binary
from docgraph.exchange.errors import StartupError
from docgraph.observe import Event
from docgraph.observe.events import DiskFull
from docgraph.runtime import LoadingCache
from tests.expect import present
from tests.process.commands import Process, run, start
from tests.process.harness import eventually
from tests.replica_set import kill

OWNER = """\
import sys, threading
from docgraph.embedded import EmbeddedMongo, MongodOptions
mongo = EmbeddedMongo(sys.argv[1], options=MongodOptions(cache_gb=0.25, oplog_mb=64))
"""
ANNOUNCE = "print(mongo.pid, mongo.uri, flush=True)\n"
START = f"{OWNER}mongo.start()\n{ANNOUNCE}"
# Started by a thread, mongod is not tied to its owner and outlives its death.
START_UNTIED = f"""{OWNER}
starter = threading.Thread(target=mongo.start)
starter.start()
starter.join()
{ANNOUNCE}"""
WAIT = "sys.stdin.read()\n"
# A worker is forked, and stops what it takes for its own.
FORK = """\
import os, warnings
warnings.simplefilter("ignore")
if not (worker := os.fork()):
    mongo.stop()
    sys.exit(0)
os.waitpid(worker, 0)
print("running" if mongo.is_running else "gone", flush=True)
"""


@pytest.fixture(scope="module", autouse=True)
def own_ports() -> Iterator[None]:
    """Ports that no server of another test chooses while these expect to find theirs free."""
    with patch.object(mongod_process, "PORTS", range(10_000, 19_000)):
        yield


@pytest.fixture(scope="module")
def options() -> MongodOptions:
    return MongodOptions(cache_gb=0.25, oplog_mb=64, start_timeout=60)


@pytest.fixture
def mongo(tmp_path: Path, options: MongodOptions) -> Iterator[EmbeddedMongo]:
    with ended(EmbeddedMongo(tmp_path / "data", options=options)) as mongo:
        yield mongo


@contextmanager
def ended(mongo: EmbeddedMongo) -> Iterator[EmbeddedMongo]:
    """Ended after the block; a clean end takes mongod a second, and is of no use then."""
    try:
        yield mongo
    finally:
        kill(mongo)
        mongo.stop()


@dataclass(frozen=True)
class Past:
    """What is known of a run that was stopped; its directory is to be copied."""

    directory: Path
    uri: str
    port: int
    pid: int
    said: list[str]


@pytest.fixture(scope="module")
def past(tmp_path_factory: pytest.TempPathFactory, options: MongodOptions) -> Past:
    """One that has run, with a document in its directory."""
    said: list[str] = []
    directory = tmp_path_factory.mktemp("past")
    mongo = EmbeddedMongo(directory, options=options, on_progress=said.append)
    with mongo as uri:
        insert(uri)
        known = Past(directory, uri, mongo.port, present(mongo.pid), list(said))
    assert mongo.pid is None
    return known


@pytest.fixture
def used(past: Past, mongo: EmbeddedMongo) -> EmbeddedMongo:
    """One that has run before, with a document in its directory."""
    shutil.copytree(past.directory, mongo.directory)
    return mongo


@dataclass(frozen=True)
class Owned:
    """A directory which another program owns whose mongod runs; tests only look at it."""

    directory: Path
    owner: int
    pid: int
    uri: str
    said: str


@pytest.fixture(scope="module")
def owned(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Owned]:
    """Its owner has had a forked worker, and says whether mongod runs on after the worker."""
    directory = tmp_path_factory.mktemp("owned")
    with owner_of(directory, START + FORK + WAIT) as (owner, pid, uri):
        yield Owned(directory, owner.pid, pid, uri, owner.stdout.readline())


@contextmanager
def owner_of(directory: Path, script: str = START + WAIT) -> Iterator[tuple[Process, int, str]]:
    """Another program that owns the directory: its process, the mongod's id, the address."""
    with start(str(directory), code=script) as owner:
        words = owner.stdout.readline().split()
        assert len(words) == 2, owner.stderr.read()
        try:
            yield owner, int(words[0]), words[1]
        finally:
            owner.kill()
            end_of(int(words[0]))


def end_of(pid: int) -> None:
    """Wait until a process is gone, of which this one is not the parent."""
    with suppress(psutil.NoSuchProcess):
        if is_alive(pid):
            psutil.Process(pid).wait(timeout=60)


def is_alive(pid: int) -> bool:
    """A zombie, for whose exit code nobody asked, is not alive."""
    try:
        return bool(psutil.Process(pid).status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False


def write_fake(path: Path, script: str) -> Path:
    path.write_text("#!/bin/sh\n" + textwrap.dedent(script))
    path.chmod(0o755)
    return path


def use_fake(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, script: str) -> None:
    monkeypatch.setenv("DOCGRAPH_MONGOD", str(write_fake(tmp_path / "mongod", script)))


def insert(uri: str, id: int = 1) -> None:
    with MongoClient[dict[str, Any]](uri) as client:
        client.shop.things.replace_one({"_id": id}, {}, upsert=True)


def count(uri: str) -> int:
    with MongoClient[dict[str, Any]](uri) as client:
        return client.shop.things.count_documents({})


def refusal(mongo: EmbeddedMongo) -> StartupError:
    """The error of a start, which must leave no process and no lock behind."""
    before = psutil.Process().children()
    with pytest.raises(StartupError) as caught:
        mongo.start()
    assert psutil.Process().children() == before
    assert "\n" not in caught.value.message
    assert caught.value.hint
    return caught.value


def test_data_and_port_are_kept(past: Past, used: EmbeddedMongo) -> None:
    """Decision 43: the port is kept with the data."""
    assert used.start() == past.uri
    assert count(used.uri) == 1


def test_start_reports_what_it_does_and_stop_leaves_no_process_and_frees_the_directory(
    past: Past,
) -> None:
    assert past.said == ["starting MongoDB"]
    assert not is_alive(past.pid)
    assert EmbeddedMongo.find_running(past.directory) is None


def test_change_streams_work_over_the_connection_string(mongo_uri: str, database: str) -> None:
    """That of the suite is an embedded one, too."""
    with (
        MongoClient[dict[str, Any]](mongo_uri) as client,
        client[database].things.watch(max_await_time_ms=5000) as stream,
    ):
        client[database].things.insert_one({"_id": 7})

        assert next(stream)["documentKey"] == {"_id": 7}


def test_running_mongod_is_found_by_other_commands_and_its_directory_refused(
    owned: Owned,
) -> None:
    """Decision 43: other commands find it through that directory."""
    assert EmbeddedMongo.find_running(owned.directory) == owned.uri

    error = refusal(EmbeddedMongo(owned.directory))

    assert error.message == f"data directory {owned.directory} in use by process {owned.owner}"
    assert is_alive(owned.pid)
    assert EmbeddedMongo.find_running(owned.directory) == owned.uri


def test_forked_worker_does_not_stop_the_mongod_of_its_parent(owned: Owned) -> None:
    assert owned.said == "running\n"
    assert EmbeddedMongo.find_running(owned.directory) == owned.uri


def test_nothing_is_found_where_nothing_runs(tmp_path: Path) -> None:
    assert EmbeddedMongo.find_running(tmp_path) is None
    assert EmbeddedMongo.find_running(tmp_path / "missing") is None


def test_directory_of_a_foreign_mongod_is_refused(owned: Owned, mongo: EmbeddedMongo) -> None:
    """Not ours by its command line, which names another path to the same files."""
    mongo.directory.mkdir()
    (mongo.directory / "db").symlink_to(owned.directory / "db")

    error = refusal(mongo)

    assert f"in use by process {owned.pid}, a mongod" in error.message
    assert is_alive(owned.pid)


@pytest.mark.parametrize("deadly", [signal.SIGKILL, signal.SIGTERM])
def test_mongod_ends_cleanly_by_itself_when_its_owner_dies(
    deadly: signal.Signals, used: EmbeddedMongo
) -> None:
    with owner_of(used.directory) as (owner, pid, uri):
        assert count(uri) == 1
        owner.send_signal(deadly)
        end_of(pid)

    last = json.loads((used.directory / "mongod.log").read_text().splitlines()[-1])
    assert last["attr"] == {"exitCode": 0}


def test_start_at_once_after_the_owner_was_ended_waits_for_a_clean_end(
    tmp_path: Path, options: MongodOptions
) -> None:
    with owner_of(tmp_path) as (owner, pid, uri):
        insert(uri)
        owner.terminate()
        owner.wait()

        with ended(EmbeddedMongo(tmp_path, options=options)) as again:
            assert count(again.start()) == 1
            assert not is_alive(pid)

    assert read_exits(tmp_path) == [0]


def read_exits(directory: Path) -> list[int]:
    """The exit codes that the log tells of."""
    lines = (directory / "mongod.log").read_text().splitlines()
    entries = [json.loads(line) for line in lines if line]
    return [one["attr"]["exitCode"] for one in entries if list(one.get("attr", ())) == ["exitCode"]]


def test_orphan_is_stopped_by_the_next_start(tmp_path: Path, options: MongodOptions) -> None:
    said: list[str] = []
    with owner_of(tmp_path, START_UNTIED + WAIT) as (owner, pid, uri):
        insert(uri)
        owner.kill()
        owner.wait()
        assert EmbeddedMongo.find_running(tmp_path) is None

        with ended(EmbeddedMongo(tmp_path, options=options, on_progress=said.append)) as again:
            assert (again.start(), count(uri)) == (uri, 1)
            assert not is_alive(pid)

    assert f"stopping a MongoDB left over as process {pid}" in said


def test_orphan_is_found_even_if_the_memory_is_spoilt(
    tmp_path: Path, options: MongodOptions
) -> None:
    with owner_of(tmp_path, START_UNTIED + WAIT) as (owner, pid, uri):
        insert(uri)
        owner.kill()
        owner.wait()
        (tmp_path / "mongod.json").write_text("{ spoilt")

        with ended(EmbeddedMongo(tmp_path, options=options)) as again:
            assert count(again.start()) == 1
            assert not is_alive(pid)


def test_mongod_is_stopped_at_exit_without_being_asked(tmp_path: Path) -> None:
    with owner_of(tmp_path, START_UNTIED) as (owner, pid, _):
        assert owner.wait(60) == 0
        assert not is_alive(pid)


@contextmanager
def stranger_on(port: int) -> Iterator[None]:
    """Another program on that port, which hangs up on everybody who does not speak its language."""

    def hang_up() -> None:
        while True:
            try:
                listener.accept()[0].close()
            except OSError:
                return

    try:
        listener = socket.create_server(("127.0.0.1", port))
    except OSError:  # somebody else is there already
        yield
        return
    with listener:
        thread = threading.Thread(target=hang_up)
        thread.start()
        yield
        listener.shutdown(socket.SHUT_RDWR)
        thread.join()


def test_taken_port_moves_the_set_to_another_where_it_starts_again_when_it_died(
    past: Past, used: EmbeddedMongo
) -> None:
    with stranger_on(past.port):
        assert count(used.start()) == 1
        new = used.port
        insert(used.uri, 2)
        kill(used)
        assert not used.is_running

    assert new != past.port
    assert used.start().startswith(f"mongodb://127.0.0.1:{new}/")
    assert count(used.uri) == 2


def test_port_lost_in_the_last_moment_is_replaced(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, mongo: EmbeddedMongo
) -> None:
    marker, real = tmp_path / "tried", find_binary()
    script = f'[ -e {marker} ] && exec {real} "$@"; touch {marker}; exit 48\n'
    use_fake(monkeypatch, tmp_path, script)

    insert(mongo.start())

    assert marker.exists()


def test_spoilt_memory_does_not_hinder_the_start(used: EmbeddedMongo) -> None:
    (used.directory / "mongod.json").write_text('{"port": 99999, "pid": "x"}')

    assert count(used.start()) == 1


def test_stale_process_id_of_another_program_is_left_alone(mongo: EmbeddedMongo) -> None:
    mongo.directory.mkdir()
    with subprocess.Popen(["sleep", "600"]) as bystander:
        memory = {"port": None, "pid": bystander.pid}
        (mongo.directory / "mongod.json").write_text(json.dumps(memory))

        mongo.start()

        assert bystander.poll() is None
        bystander.kill()


def test_missing_binary_is_refused(monkeypatch: pytest.MonkeyPatch, mongo: EmbeddedMongo) -> None:
    monkeypatch.setenv("DOCGRAPH_MONGOD", "/nowhere/mongod")

    error = refusal(mongo)

    assert error.message == (
        "the mongod that DOCGRAPH_MONGOD names does not exist: /nowhere/mongod"
    )


def test_missing_library_is_refused(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, mongo: EmbeddedMongo
) -> None:
    script = """
    echo "$0: error while loading shared libraries: libcurl.so.4: cannot open shared object" \
         "file: No such file or directory" >&2
    exit 127
    """
    use_fake(monkeypatch, tmp_path, script)

    error = refusal(mongo)

    assert error.message == "mongod cannot start: the shared library libcurl.so.4 is missing"


def test_binary_of_another_architecture_is_refused(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, mongo: EmbeddedMongo
) -> None:
    binary = tmp_path / "mongod"
    binary.write_bytes(b"\x7fELF\x02\x01\x01" + bytes(57))
    binary.chmod(0o755)
    monkeypatch.setenv("DOCGRAPH_MONGOD", str(binary))

    error = refusal(mongo)

    assert error.message.startswith("mongod cannot be run: it was built for another processor")


def test_binary_without_its_loader_is_refused(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, mongo: EmbeddedMongo
) -> None:
    binary = tmp_path / "mongod"
    binary.write_text("#!/nowhere/ld-linux.so\n")
    binary.chmod(0o755)
    monkeypatch.setenv("DOCGRAPH_MONGOD", str(binary))

    assert "its loader is missing" in refusal(mongo).message


def test_data_of_a_newer_version_is_refused(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, mongo: EmbeddedMongo
) -> None:
    line = json.dumps(
        {
            "s": "F",
            "c": "CONTROL",
            "id": 20573,
            "msg": "Wrong mongod version",
            "attr": {"error": "UPGRADE PROBLEM: Found an invalid featureCompatibilityVersion"},
        }
    )
    use_fake(monkeypatch, tmp_path, f"echo '{line}' >> {mongo.log}\nexit 62\n")

    assert "was written by another version of MongoDB" in refusal(mongo).message


def test_unknown_end_gives_the_reason_in_the_log_of_this_start_only(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, mongo: EmbeddedMongo
) -> None:
    mongo.directory.mkdir()
    mongo.log.write_text('{"s":"F","msg":"trouble of yesterday"}\n')
    line = '{"s":"F","msg":"trouble of today"}'
    use_fake(monkeypatch, tmp_path, f"echo '{line}' >> {mongo.log}\nexit 14\n")

    error = refusal(mongo)

    assert error.message == "mongod ended at its start: trouble of today"
    assert error.hint == f"its log has more: {mongo.log}"


def test_mongod_that_never_gets_ready_is_ended(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, options: MongodOptions
) -> None:
    use_fake(monkeypatch, tmp_path, "exec sleep 600\n")
    impatient = replace(options, start_timeout=0.5)

    error = refusal(EmbeddedMongo(tmp_path / "data", options=impatient))

    assert error.message == "the embedded MongoDB was not ready within 0.5 s"


def test_file_in_place_of_the_directory_is_refused(tmp_path: Path) -> None:
    (tmp_path / "data").write_text("")

    error = refusal(EmbeddedMongo(tmp_path / "data"))

    assert f"data directory {tmp_path / 'data'} is not a directory" in error.message


def test_directory_of_another_user_is_refused(tmp_path: Path) -> None:
    script = f"""{OWNER}
import os
from docgraph.embedded import mongod_process
binary = mongod_process.find_binary()
mongod_process.find_binary = lambda: binary  # another user cannot look into the home of root
if os.geteuid() == 0:  # to root everything is permitted
    os.seteuid(65534)
else:
    os.chmod(sys.argv[1], 0o500)
try:
    mongo.start()
except Exception as error:
    print(type(error).__name__, error)
"""
    done = run(str(tmp_path), code=script)

    assert done.stdout.startswith(
        f"StartupError data directory {tmp_path} is not writable for this user"
    ), done.stderr


def test_full_disk_is_refused(tmp_path: Path) -> None:
    place, script = tmp_path / "small", tmp_path / "start.py"
    place.mkdir()
    script.write_text(
        OWNER
        + "try: mongo.start()\nexcept Exception as error: print(type(error).__name__, error)\n"
    )
    mount = f"mount -t tmpfs -o size=512k tmpfs {place}"
    if not can_mount(mount):
        pytest.skip("needs the right to mount a small file system")

    done = subprocess.run(
        ["unshare", "-m", "sh", "-c", f"{mount} && exec {sys.executable} {script} {place}"],
        capture_output=True,
        text=True,
        check=False,
    )

    expected = f"DiskFullError no space left on the disk of data directory {place}\n"
    assert done.stdout == expected, done.stderr


def can_mount(command: str) -> bool:
    if shutil.which("unshare") is None or os.geteuid() != 0:
        return False
    return subprocess.run(["unshare", "-m", "sh", "-c", command], check=False).returncode == 0


def test_full_disk_in_the_words_of_mongod_is_refused(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, mongo: EmbeddedMongo
) -> None:
    detail = {"error": 28, "message": {"error_str": "No space left on device"}}
    line = json.dumps({"s": "E", "c": "WT", "msg": "WiredTiger error message", "attr": detail})
    use_fake(monkeypatch, tmp_path, f"echo '{line}' >> {mongo.log}\nexit 14\n")

    error = refusal(mongo)

    assert error.message == f"no space left on the disk of data directory {mongo.directory}"


def test_keeper_names_a_full_disk_once_and_starts_again_when_there_is_space(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, used: EmbeddedMongo
) -> None:
    """Starts on a full disk would fail one after the other, ever more rarely."""
    heard: list[bool] = []
    said: list[Event] = []
    keeper = Keeper(used, heard.append)
    monkeypatch.setattr("docgraph.embedded.emit", said.append)
    starts = tmp_path / "starts"
    line = json.dumps({"s": "E", "msg": "m", "attr": {"message": "No space left on device"}})
    with monkeypatch.context() as patch:
        use_fake(patch, tmp_path, f"echo >> {starts}; echo '{line}' >> {used.log}; exit 14\n")
        assert keeper.check_alive() == 1.0
        patch.setattr(EmbeddedMongo, "free_bytes", 0)
        assert [keeper.check_alive(), keeper.check_alive()] == [1.0, 1.0]
        assert starts.read_text().count("\n") == 1
        patch.setattr(EmbeddedMongo, "free_bytes", 1 << 40)
        assert keeper.check_alive() == 1.0  # not enough for `mongod`
        assert starts.read_text().count("\n") == 2
        assert heard == [True]

    assert keeper.check_alive() == 0.0
    assert used.is_running
    keeper.check_alive()

    assert heard == [True, False]
    assert said == [DiskFull(str(used.directory), "disk full")]


def test_suspended_mongod_is_stopped_cleanly(tmp_path: Path, options: MongodOptions) -> None:
    mongod_process = Mongod(tmp_path, replace(options, stop_timeout=60), print)
    mongod_process.launch(time.monotonic() + 60)
    assert mongod_process.pid is not None
    os.kill(mongod_process.pid, signal.SIGSTOP)

    mongod_process.stop()

    last = json.loads(mongod_process.log.read_text().splitlines()[-1])
    assert last["attr"] == {"exitCode": 0}


def test_suite_has_failpoints(mongo_client: MongoClient[dict[str, Any]]) -> None:
    answer = mongo_client.admin.command(
        "configureFailPoint", "failCommand", mode="off", data={"failCommands": ["find"]}
    )

    assert answer["ok"] == 1


@pytest.mark.anyio
async def test_suite_notices_blocking_calls_in_the_event_loop(
    tmp_path: Path, blocking_watch: list[str]
) -> None:
    with pytest.raises(BlockingError):
        EmbeddedMongo(tmp_path).start()

    assert blocking_watch
    blocking_watch.clear()


@pytest.mark.anyio
async def test_suite_lets_libraries_log_below_our_code(blocking_watch: list[str]) -> None:
    """pytest keeps what they log in files of its own, and calls that are ours were below."""

    async def load(_: str) -> None:
        logging.getLogger("a.library").error("failed")

    await LoadingCache[str, None](1).get("x", load)
    assert not blocking_watch


@pytest.mark.skipif(sys.platform != "linux", reason="looks at the threads of a process in /proc")
def test_process_of_which_another_thread_lives_has_not_ended() -> None:
    script = """\
import ctypes, threading, time
threading.Thread(target=time.sleep, args=(600,)).start()
print("ready", flush=True)
ctypes.CDLL(None).pthread_exit(None)
"""
    with subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        try:
            eventually(lambda: not is_alive(process.pid))
            assert not await_end(process.pid, 0.2)
        finally:
            process.kill()
        assert await_end(process.pid, 60)


# --- a port of the user's choice ------------------------------------------------------------------


def test_a_chosen_port_is_used_also_for_existing_data_and_never_replaced(
    used: EmbeddedMongo, past: Past, options: MongodOptions
) -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        port = other.getsockname()[1]
        chosen = EmbeddedMongo(used.directory, options=replace(options, port=port))
        other.listen()
        error = refusal(chosen)
        assert error.message == f"port {port}, which is set for the embedded MongoDB, is in use"
        assert "core.embedded-port" in present(error.hint)
    assert port != past.port
    with ended(chosen):
        uri = chosen.start()
        assert (chosen.port, count(uri)) == (port, 1)
        with MongoClient[dict[str, Any]](uri) as client:
            config = client.admin.command("replSetGetConfig")["config"]
    assert [one["host"] for one in config["members"]] == [f"127.0.0.1:{port}"]
