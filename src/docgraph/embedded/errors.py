"""Startup errors of `mongod`: the cause in one line, with a hint.

The functions are pure: they map the exit code, output and log to a `StartupError`. Each rule below
handles one cause and returns None for others; the first error wins.
"""

from __future__ import annotations

import errno
import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from docgraph.exchange.errors import StartupError

ADDRESS_TAKEN = 48  # exit codes of mongod
DIRECTORY_TROUBLE = 100
OTHER_VERSION = 62
ILLEGAL_INSTRUCTION, KILLED = -4, -9  # the signals, as Popen reports them

CANNOT_EXECUTE = "docgraph: cannot execute: errno"  # the text of exec.py

SCARCE_BYTES = 2**24  # with less, `mongod` ends sooner or later, and does not start again
_PACKAGES = {"libcurl": "libcurl4", "libssl": "libssl3", "libcrypto": "libssl3"}
_OTHER_WAYS = (
    "name another mongod with DOCGRAPH_MONGOD, or a running MongoDB with mclient.connection-string"
)
_ANONYMOUS = "no version information available"  # harmless, by the loader about pycurl
_LIBRARY = re.compile(r"(?:loading shared libraries: |Library not loaded: )(?P<name>[^\s:]+)")
_LIBRARY_VERSION = re.compile(r"version [`'](?P<name>[A-Z]+_[0-9.]+)' not found")
_CANNOT_EXECUTE = re.compile(re.escape(CANNOT_EXECUTE) + r" (?P<number>\d+)")


class DiskFullError(StartupError):
    """There is no space for the data."""


@dataclass(frozen=True, slots=True)
class ExitReport:
    """The facts about a `mongod` that ended before it was ready."""

    code: int
    output: str
    log: str
    binary: Path
    directory: Path
    log_path: Path
    pid_in_lock: int | None = None
    free_bytes: int | None = None


def explain_exit(report: ExitReport) -> StartupError:
    """Return an error with the cause in one line, and a hint."""
    for rule in _RULES:
        if error := rule(report):
            return error
    line = _find_last_error(report) or f"exit code {report.code}"
    return StartupError(
        f"mongod ended at its start: {line}", hint=f"its log has more: {report.log_path}"
    )


def no_space(directory: Path) -> DiskFullError:
    return DiskFullError(
        f"no space left on the disk of data directory {directory}",
        hint="free some space, or choose another directory with core.data-directory",
    )


def find_missing_library(output: str) -> str | None:
    """Return the file name of the library that the loader did not find, from its output."""
    match = _LIBRARY.search(output)
    return Path(match["name"]).name if match else None


def _missing_library(report: ExitReport) -> StartupError | None:
    if name := find_missing_library(report.output):
        missing = f"the shared library {name}"
    elif match := _LIBRARY_VERSION.search(report.output):
        name = match["name"]
        missing = f"a library with {name}"
    else:
        return None
    package = next((_PACKAGES[stem] for stem in _PACKAGES if name.startswith(stem)), None)
    install = f"install {package}" if package else f"install the package that provides {name}"
    return StartupError(
        f"mongod cannot start: {missing} is missing",
        hint=f"{install} (it needs libcurl 4 and OpenSSL 3, on Debian and Ubuntu: "
        f"apt install libcurl4 libssl3), or {_OTHER_WAYS}",
    )


def _cannot_execute(report: ExitReport) -> StartupError | None:
    match = _CANNOT_EXECUTE.search(report.output)
    if match is None:
        return None
    number = int(match["number"])
    if number == errno.ENOEXEC:
        reason = "it was built for another processor or system"
    elif number == errno.ENOENT:
        # The file existed a moment ago: the loader that it names is missing.
        reason = "its loader is missing, as on systems without glibc"
    else:
        reason = errno.errorcode.get(number, str(number))
    return StartupError(f"mongod cannot be run: {reason} ({report.binary})", hint=_OTHER_WAYS)


def _ended_by_signal(report: ExitReport) -> StartupError | None:
    if report.code == ILLEGAL_INSTRUCTION:
        return StartupError(
            "mongod cannot be run: this processor lacks instructions that it needs (AVX, ARMv8.2)",
            hint=_OTHER_WAYS,
        )
    if report.code == KILLED:
        return StartupError(
            "mongod was killed at its start, perhaps because memory ran out",
            hint=f"free some memory and start again; its log: {report.log_path}",
        )
    return None


def _full_disk(report: ExitReport) -> StartupError | None:
    is_scarce = report.free_bytes is not None and report.free_bytes < SCARCE_BYTES
    if not is_scarce and "No space left on device" not in report.log + report.output:
        return None
    return no_space(report.directory)


def _other_version(report: ExitReport) -> StartupError | None:
    text = "\n".join(_complaints(report.log))
    if report.code != OTHER_VERSION and not re.search(
        r"featureCompatibilityVersion|unsupported WiredTiger file version", text
    ):
        return None
    return StartupError(
        f"the data in {report.directory} was written by another version of MongoDB",
        hint="name a mongod of that version with DOCGRAPH_MONGOD, or choose another directory "
        "with core.data-directory",
    )


def _refused_directory(report: ExitReport) -> StartupError | None:
    text = "\n".join(_complaints(report.log)) + report.output
    if re.search(r"Permission denied|Operation not permitted|read-only", text):
        return StartupError(
            f"data directory {report.directory} is not writable for this user",
            hint="give this user the directory and all in it (chown -R), or choose another "
            "directory with core.data-directory",
        )
    if report.code == DIRECTORY_TROUBLE and re.search(r"DBPathInUse|another mongod", text):
        holder = report.pid_in_lock or "unknown"
        return StartupError(
            f"data directory {report.directory} in use by process {holder}, a mongod",
            hint="stop that process first, or choose another directory with core.data-directory",
        )
    return None


_RULES: tuple[Callable[[ExitReport], StartupError | None], ...] = (
    _missing_library,
    _cannot_execute,
    _ended_by_signal,
    _full_disk,
    _other_version,
    _refused_directory,
)


def _find_last_error(report: ExitReport) -> str | None:
    complaints = list(_complaints(report.log)) or list(_complaints(report.output))
    if complaints:
        return complaints[-1]
    lines = report.output.splitlines()
    printed = [line for line in lines if line.strip() and _ANONYMOUS not in line]
    return printed[-1].strip()[:300] if printed else None


def _complaints(log: str) -> Iterator[str]:
    """Yield the errors and fatal errors of a structured log, each as one short line."""
    for line in log.splitlines():
        try:
            entry = json.loads(line)
            severity, message = entry["s"], entry["msg"]
        except (ValueError, TypeError, KeyError):  # a stack trace, or a line cut by a full disk
            continue
        if severity in ("E", "F"):
            detail = _detail(entry.get("attr"))
            yield (f"{message}: {detail}" if detail else message)[:300]


def _detail(attributes: object) -> str | None:
    match attributes:
        case {"error": {"errmsg": str(text), **rest}}:
            return f"{text} ({rest['codeName']})" if "codeName" in rest else text
        case {"error": str(text)} | {"message": str(text)} | {"message": {"msg": str(text)}}:
            return text
        case {"message": {"error_str": str(text)}}:
            return text
    return None
