"""The registry of the bench, the rungs and the rivals agree; nothing is started."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import tomllib
from importlib.util import find_spec
from pathlib import Path

import pytest
from bench.contest import TWIN_PORT, Result, load_definitions
from bench.rivals import RIVALS, RUNGS, SCHEMA, NodeRival, PythonRival, Rival, set_up_all
from bench.rivals.run import find_bar, format_line
from bench.twin import HANDLERS
from bench.workloads import WORKLOADS
from graphql import GraphQLObjectType, GraphQLSchema, build_schema, parse, validate

ROOT = Path(__file__).parents[3]
BY_ID = {workload.id: workload for workload in WORKLOADS}
PRINT_SCHEMA = """
import sys
from importlib import import_module
from graphql import GraphQLSchema, print_schema
schema = import_module(sys.argv[1]).schema
print(print_schema(schema) if isinstance(schema, GraphQLSchema) else schema.as_str())
"""
EXACT_VERSION = re.compile(r"\d+\.\d+\.\d+")

every_rival = pytest.mark.parametrize("rival", RIVALS, ids=lambda rival: rival.name)
in_python = [rival for rival in RIVALS if isinstance(rival, PythonRival)]
on_node = [rival for rival in RIVALS if isinstance(rival, NodeRival)]


def read_schema() -> GraphQLSchema:
    return build_schema(SCHEMA.read_text())


def test_every_rung_is_a_workload_that_the_twin_answers() -> None:
    assert set(RUNGS) <= BY_ID.keys() & HANDLERS.keys()


@every_rival
def test_a_rival_serves_the_rungs_it_claims(rival: Rival) -> None:
    schema = read_schema()

    problems = {id: validate(schema, parse(BY_ID[id].query)) for id in rival.rungs}

    assert set(rival.rungs) <= set(RUNGS)
    assert not any(problems.values()), problems


@every_rival
def test_a_bar_stands_on_a_rung_that_the_rival_serves(rival: Rival) -> None:
    assert set(rival.bars) <= set(rival.rungs)


def test_names_and_ports_are_of_one_rival_each() -> None:
    ports = {TWIN_PORT, *(rival.port for rival in RIVALS)}

    assert len(ports) == len(RIVALS) + 1
    assert len({"docgraph", "twin", *(rival.name for rival in RIVALS)}) == len(RIVALS) + 2


def test_the_schema_of_the_rivals_is_a_part_of_the_app() -> None:
    app = describe(build_schema("scalar DateTime " + load_definitions()[0]["schema"]))
    part = describe(read_schema())

    assert all(fields.items() <= app[name].items() for name, fields in part.items())


def describe(schema: GraphQLSchema) -> dict[str, dict[str, tuple[str, dict[str, str]]]]:
    """Types, their fields, and the types of these and of their arguments."""
    return {
        name: {
            key: (str(field.type), {arg: str(one.type) for arg, one in field.args.items()})
            for key, field in type_.fields.items()
        }
        for name, type_ in schema.type_map.items()
        if isinstance(type_, GraphQLObjectType) and not name.startswith("__")
    }


@pytest.mark.parametrize("rival", in_python, ids=lambda rival: rival.name)
def test_a_rival_in_python_has_its_file_and_its_pins(rival: PythonRival) -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    extra = [
        re.split(r"[<>=]", one)[0] for one in project["project"]["optional-dependencies"]["bench"]
    ]
    pinned = {line.split("==")[0] for line in (ROOT / "constraints.txt").read_text().split()}

    assert (ROOT / f"{rival.module.replace('.', '/')}.py").is_file()
    assert all(any(one.startswith(package) for one in extra) for package in rival.packages)
    assert set(extra) <= pinned


@pytest.mark.parametrize("rival", on_node, ids=lambda rival: rival.name)
def test_a_rival_on_node_names_exact_versions_and_keeps_no_lock_file(rival: NodeRival) -> None:
    manifest = json.loads((rival.folder / "package.json").read_bytes())

    assert all(EXACT_VERSION.fullmatch(one) for one in manifest["dependencies"].values())
    assert (rival.folder / "server.mjs").is_file()
    assert not (rival.folder / "package-lock.json").exists()


@pytest.mark.parametrize("rival", in_python, ids=lambda rival: rival.name)
def test_the_schema_of_a_rival_in_python_is_the_common_one(rival: PythonRival) -> None:
    if not all(find_spec(package) for package in rival.packages):
        pytest.skip("the extra bench is not installed")

    # Strawberry replaces a resolver of graphql-core: for all later tests of the process, too.
    printed = subprocess.run(
        [sys.executable, "-c", PRINT_SCHEMA, rival.module],
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
    )

    assert describe(build_schema(printed.stdout)) == describe(read_schema())


def test_without_node_its_rivals_are_left_out_for_one_reason(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(shutil, "which", lambda name: None)

    ready, left_out = set_up_all()

    reasons = [reason for reason in left_out if "no node" in reason]
    assert [left_out[reason] for reason in reasons] == [[rival.name for rival in on_node]]
    assert not {rival.name for rival in ready} & {rival.name for rival in on_node}


def test_what_misses_its_bar_is_marked() -> None:
    result = Result(rate=100, p50=1, p99=2, cpu_ms=3)
    bar = find_bar(BY_ID["W3"], "mercurius", RIVALS)

    missed = format_line(BY_ID["W3"], "mercurius", result, 1.79, bar)
    reached = format_line(BY_ID["W3"], "mercurius", result, 1.8, bar)

    assert missed.endswith("below the bar")
    assert not reached.endswith("below the bar")


def test_the_bar_of_the_twin_is_that_of_the_workload() -> None:
    assert find_bar(BY_ID["W3"], "twin", RIVALS) == BY_ID["W3"].bar
    assert find_bar(BY_ID["W0"], "apollo", RIVALS) is None
    assert find_bar(BY_ID["W3"], "docgraph", RIVALS) is None
