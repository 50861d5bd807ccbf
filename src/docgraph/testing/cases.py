"""Cases in YAML, each with a query and what is expected of its answer."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, ClassVar, NamedTuple
from xml.etree import ElementTree

import click
import msgspec

from docgraph.cli.terminal import make_printable, notice
from docgraph.config.config_node import to_plain
from docgraph.config.sources import load_file
from docgraph.exchange import StartupError
from docgraph.testing.app_client import AppClient, Caller, find_difference
from docgraph.testing.running import RunningApp, running_app, running_mongo


class _Expectation(msgspec.Struct, forbid_unknown_fields=True, rename="kebab"):
    """What is expected of an answer; numbers are upper limits."""

    data: Any = msgspec.UNSET
    errors: list[str] = []  # their codes
    hidden: list[str] = []  # fields that the schema of the caller does not have
    commands: int | None = None
    documents_examined: int | None = None


class _Case(msgspec.Struct, forbid_unknown_fields=True):
    name: str
    expect: _Expectation
    query: str = ""
    variables: dict[str, Any] = {}
    app: str | None = None
    user: dict[str, Any] | None = msgspec.field(name="as", default=None)

    def __post_init__(self) -> None:
        if not (self.query or self.expect.hidden):
            raise ValueError(f"the case {self.name!r} has neither query nor expect.hidden")
        if not isinstance((self.user or {}).get("roles", []), list):
            raise ValueError(f"the case {self.name!r}: as.roles is not a list")


class _Result(NamedTuple):
    file: str
    name: str
    seconds: float
    failure: str | None


class _NotTested(StartupError):
    """The cases could not be run."""

    exit_code: ClassVar[int] = 2


def run_cases(directory: Path, junit: Path | None) -> int:
    """Run the cases of a project, print and write the results, and return how many failed."""
    try:
        cases = list(_read_cases(directory / "tests"))
        with running_mongo() as uri, running_app(uri, directory) as app:
            results = [_run(app, file, case) for file, case in cases]
        if junit is not None:
            _write_junit(junit, results)
    except (StartupError, OSError) as error:
        hint = error.hint if isinstance(error, StartupError) else None
        raise _NotTested(str(error), hint=hint) from error
    failures = sum(result.failure is not None for result in results)
    notice(f"{len(results) - failures} passed, {failures} failed")
    return failures


def _read_cases(directory: Path) -> Iterator[tuple[str, _Case]]:
    files = sorted(path for path in directory.rglob("*") if path.suffix in (".yml", ".yaml"))
    if not files:
        raise StartupError(f"there is no file of cases (.yml) in {directory}")
    for file in files:
        try:
            for case in msgspec.convert(to_plain(load_file(file, "/")), list[_Case]):
                yield str(file), case
        except msgspec.ValidationError as error:
            raise StartupError(f"{file}: {error}") from error


def _run(app: RunningApp, file: str, case: _Case) -> _Result:
    started, failure = time.monotonic(), None
    app.reset()
    try:
        _check(AppClient(app), case)
    except (AssertionError, ValueError) as error:
        failure = str(error)
    line = f"{file}: {case.name}" if failure is None else f"{file}: {case.name}: {failure}"
    click.echo(f"{'ok' if failure is None else 'FAILED':8}{make_printable(line)}")
    return _Result(file, case.name, time.monotonic() - started, failure)


def _check(client: AppClient, case: _Case) -> None:
    caller: Caller = {} if case.app is None else {"app": case.app}
    if case.user is not None:
        properties = dict(case.user)
        caller["roles"], caller["as_user"] = properties.pop("roles", []), properties
    for field in case.expect.hidden:
        client.assert_hidden(field, **caller)
    if not case.query:
        return
    answer, expect = client.query(case.query, case.variables, **caller), case.expect
    codes = [error.get("extensions", error).get("code") for error in answer.errors]
    if codes != expect.errors:
        messages = "; ".join(error["message"] for error in answer.errors)
        raise AssertionError(f"errors: expected {expect.errors}, got {codes}: {messages}")
    if expect.data is not msgspec.UNSET:
        difference = find_difference({"data": expect.data}, {"data": answer.json.get("data")})
        if difference:
            raise AssertionError(difference)
    costs = {"commands": answer.commands, "documents-examined": answer.documents_examined}
    for name, limit in zip(costs, (expect.commands, expect.documents_examined), strict=True):
        if limit is not None and costs[name] > limit:
            raise AssertionError(f"{name}: expected at most {limit}, got {costs[name]}")


def _write_junit(path: Path, results: Sequence[_Result]) -> None:
    suite = ElementTree.Element("testsuite", name="docgraph apps test", tests=str(len(results)))
    suite.set("failures", str(sum(result.failure is not None for result in results)))
    for result in results:
        name, seconds = make_printable(result.name), f"{result.seconds:.3f}"
        case = ElementTree.SubElement(
            suite, "testcase", classname=result.file, name=name, time=seconds
        )
        if result.failure is not None:
            ElementTree.SubElement(case, "failure", message=make_printable(result.failure))
    ElementTree.ElementTree(suite).write(path, encoding="utf-8", xml_declaration=True)
