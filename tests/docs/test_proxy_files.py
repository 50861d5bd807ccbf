"""The files in `deploy/haproxy`: each is read by its program, and they fit each other."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from docgraph.config import ConfigSources
from docgraph.server.prepare import load_tree, prepare
from docgraph.server.settings import ServerSettings
from tests.programs import require, run_program

pytestmark = pytest.mark.anyio

DEPLOY = Path(__file__).parent.parent.parent / "deploy"
PROXY = DEPLOY / "haproxy/haproxy.cfg"
SECRETS = (
    "/jwtTokenManager/key=a key of thirty-two bytes, or of more",
    "/mclient/connection-string=mongodb://db1,db2,db3/?replicaSet=rs0",
)


def read_settings() -> ServerSettings:
    sources = ConfigSources(file=DEPLOY / "haproxy/docgraph.yml", settings=SECRETS, environ={})
    return ServerSettings.from_sections(prepare(load_tree(sources)).config.sections)


async def test_the_proxy_takes_its_file() -> None:
    require("haproxy")
    checked = await run_program("haproxy", "-c", "-f", str(PROXY))
    assert checked.returncode == 0, checked.stderr


def test_the_delay_of_a_stop_is_longer_than_the_proxy_needs_to_notice() -> None:
    text = PROXY.read_text()
    (inter, fall), *others = re.findall(r"default-server inter (\d+)ms fall (\d+)", text)
    assert not others
    limits = read_settings().limits
    assert limits.stop_delay >= 2 * int(inter) * int(fall) / 1000


def test_systemd_waits_for_the_delay_and_the_grace() -> None:
    unit = (DEPLOY / "systemd/docgraph.service").read_text()
    (seconds,) = re.findall(r"^TimeoutStopSec=(\d+)$", unit, re.MULTILINE)
    assert int(seconds) > read_settings().limits.longest_stop + 2


def test_the_proxy_repeats_nothing_that_may_change_something() -> None:
    text = PROXY.read_text()
    safe = re.findall(r"^ +acl changes-nothing (.+)$", text, re.MULTILINE)
    assert safe == ["method GET HEAD OPTIONS", "path_beg /graphql/"]
    assert "http-request disable-l7-retry unless changes-nothing" in text
