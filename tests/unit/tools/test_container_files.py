"""Containerfile and compose.yaml, as far as they can be judged without an engine."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

import pytest
import yaml
from pymongo.uri_parser import parse_uri
from tools.containerfile import CONTAINERFILE, Stage, read_stages

from docgraph.config import ConfigSources
from docgraph.runtime.sections import Core
from docgraph.server.prepare import load_tree, prepare
from docgraph.server.sections import HttpListener
from docgraph.store.sections import MClient

ROOT = Path(__file__).parents[3]
STAGES = read_stages(CONTAINERFILE.read_text())
COMPOSE: dict[str, Any] = yaml.safe_load((ROOT / "compose.yaml").read_text())
SERVED = (STAGES["docgraph"], STAGES["embedded"])


def read_settings(tmp_path: Path, *settings: str, **environ: str) -> Any:
    """What docgraph makes of these options and variables."""
    sources = ConfigSources(settings=settings, environ=environ, directory=tmp_path)
    return prepare(load_tree(sources)).config


def test_what_is_built_by_default_has_no_embedded_database() -> None:
    assert list(STAGES)[-1] == "docgraph"
    done = [one.text for one in STAGES["docgraph"].instructions + STAGES["build"].instructions]
    assert not any("embedded" in text for text in done)
    assert any("embedded" in one.text for one in STAGES["embedded"].own)


@pytest.mark.parametrize("stage", SERVED, ids=lambda stage: stage.name)
def test_a_container_is_not_root_says_how_it_is_and_listens_outside(
    stage: Stage, tmp_path: Path
) -> None:
    assert int(stage.last("USER").text.split(":")[0]) > 0
    assert "/ping" in stage.last("HEALTHCHECK").words[-1]
    compile(stage.last("HEALTHCHECK").words[-1], "HEALTHCHECK", "exec")
    assert stage.last("ENTRYPOINT").words == ["docgraph"]

    command, option, setting = stage.last("CMD").words
    assert (command, option) == ("serve", "--set")
    listener = read_settings(tmp_path, setting).get(HttpListener)
    assert listener.host == "0.0.0.0"  # noqa: S104 - of the container
    assert str(listener.port) == stage.last("EXPOSE").text


def test_every_stage_copies_from_one_above_it_and_nothing_is_run_as_another_user() -> None:
    above: set[str] = set()
    for name, stage in STAGES.items():
        for one in stage.own:
            if one.name == "COPY" and one.text.startswith("--from="):
                assert one.text.split()[0].removeprefix("--from=") in above
        above.add(name)
    for stage in STAGES.values():
        names = [one.name for one in stage.instructions]
        assert "USER" not in names or "RUN" not in names[names.index("USER") :]
        for one in stage.own:
            if one.name == "RUN":
                assert shlex.split(one.text)


def test_no_file_of_the_checkout_that_the_build_needs_is_ignored() -> None:
    ignored = [
        line
        for line in (ROOT / ".dockerignore").read_text().splitlines()
        if line and not line.startswith("#")
    ]
    for needed in ("src", "console", "examples", "deploy", "tools", "constraints.txt"):
        assert (ROOT / needed).exists()
        assert needed not in ignored
    assert "src/docgraph/console/static*" in ignored  # what is there may be old


def test_the_services_of_compose_refer_to_what_there_is() -> None:
    services = COMPOSE["services"]
    for service in services.values():
        assert set(service.get("depends_on", ())) <= set(services)
        assert set(service["networks"]) <= set(COMPOSE["networks"])
        for volume in service.get("volumes", ()):
            assert volume.split(":")[0] in COMPOSE["volumes"]


def test_compose_connects_docgraph_to_all_three_members(tmp_path: Path) -> None:
    docgraph = COMPOSE["services"]["docgraph"]
    config = read_settings(tmp_path, **docgraph["environment"])
    connection = parse_uri(config.get(MClient).connection_string)

    members = {name for name in COMPOSE["services"] if name.startswith("mongo")}
    assert {host for host, _ in connection["nodelist"]} == members
    assert len(members) == 3
    command = COMPOSE["services"]["mongo1"]["command"]
    assert connection["options"]["replicaSet"] == command[command.index("--replSet") + 1]
    assert config.get(Core).workers == 2


def test_compose_asks_docgraph_how_it_is_as_the_image_does_and_at_the_probe_listener(
    tmp_path: Path,
) -> None:
    docgraph = COMPOSE["services"]["docgraph"]
    check = docgraph["healthcheck"]
    instruction = STAGES["docgraph"].last("HEALTHCHECK")
    probes = read_settings(tmp_path, **docgraph["environment"]).get(Core).probe_listener

    assert check["test"][0] == "CMD"
    asked = [word.replace(":8080/", f":{probes.port}/") for word in instruction.words[-3:]]
    assert check["test"][1:] == asked
    assert probes.host == "0.0.0.0"  # noqa: S104 - read, not bound to
    assert not [one for one in docgraph["ports"] if str(probes.port) in one]
    for option in ("interval", "timeout"):
        assert f"--{option}={check[option]}" in instruction.text


def test_compose_gives_docgraph_no_right_that_it_does_not_need() -> None:
    docgraph = COMPOSE["services"]["docgraph"]

    assert docgraph["read_only"] is True
    assert docgraph["cap_drop"] == ["ALL"]
    assert docgraph["security_opt"] == ["no-new-privileges:true"]
    assert docgraph["tmpfs"] == ["/tmp"]  # noqa: S108 - in the container
    assert COMPOSE["networks"]["database"]["internal"] is True
    assert all(
        "ports" not in service for name, service in COMPOSE["services"].items() if "mongo" in name
    )
