"""The clients of the process (`mclient`; limits of the section and of the connection string)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pymongo import ReadPreference
from pymongo.errors import ConfigurationError

from docgraph.config.section import PluginConfig
from docgraph.exchange.errors import StartupError
from docgraph.store import ClientProvider, open_store
from docgraph.store.driver.client import DriverClient, build_client, close_client
from docgraph.store.driver.driver_internals import has_free_connection
from docgraph.store.driver.fast_path import FastPath
from docgraph.store.sections import AggregationSecurity, MClient
from tests.unit.config.harness import problems_of

LOCAL = "mongodb://127.0.0.1:1/"


def timings(client: DriverClient) -> dict[str, Any]:
    pool = client.options.pool_options
    return {
        "pool": (pool.max_pool_size, pool.min_pool_size, pool.max_connecting),
        "wait": pool.wait_queue_timeout,
        "connect": pool.connect_timeout,
        "selection": client.options.server_selection_timeout,
    }


def test_defaults_are_those_of_the_section() -> None:
    client = build_client(MClient(), LOCAL)

    assert timings(client) == {"pool": (100, 5, 2), "wait": 15, "connect": 2, "selection": 15}
    assert client.options.retry_reads
    assert client.options.retry_writes


def test_connection_string_has_the_last_word() -> None:
    options = "maxPoolSize=3&WAITQUEUETIMEOUTMS=500&retryReads=false&serverSelectionTimeoutMS=900"

    client = build_client(MClient(max_pool_size=50), f"{LOCAL}?{options}")

    assert timings(client) == {"pool": (3, 0, 2), "wait": 0.5, "connect": 2, "selection": 0.9}
    assert not client.options.retry_reads


def test_smaller_pool_keeps_fewer_connections_open() -> None:
    client = build_client(MClient(max_pool_size=2), LOCAL)

    assert timings(client)["pool"] == (2, 2, 2)


def test_streams_have_the_connections_that_they_need_whatever_the_connection_string_says() -> None:
    """Decision 50: they never wait for connections of requests, nor requests for theirs."""
    options = "maxPoolSize=5&minPoolSize=5&connectTimeoutMS=700&appName=shop"
    section = MClient(connection_string=f"{LOCAL}?{options}", min_pool_size=0)

    store = open_store(section, AggregationSecurity(), max_cursors=200)

    streams, requests = timings(store.stream_client), timings(store.client)
    assert streams["pool"][0] > 200
    assert streams["pool"][1] == 0
    assert requests["pool"][:2] == (5, 5)
    assert streams["connect"] == requests["connect"] == 0.7
    assert store.stream_client.options.pool_options.appname == "shop"
    assert store.max_connections == streams["pool"][0] + 5
    assert store.streams.client is store.stream_client


def test_decoding_is_not_negotiable() -> None:
    client = build_client(MClient(), f"{LOCAL}?tz_aware=true&uuidRepresentation=standard")

    assert not client.codec_options.tz_aware
    assert client.codec_options.uuid_representation == 0


@pytest.mark.parametrize(
    "text",
    [
        "mongodb://ann:hunter2/x@host/",
        "mongodb://ann:hunter2@host:hunter2/",
        "mongodb://host/?noSuchOption=hunter2",
        "mongodb://host/?maxPoolSize=hunter2",
        "mongodb://hunter2@host/",
        "mongodb://host/?tls=true&tlsCAFile=/hunter2.pem",
        "mongodb://",
        "http://hunter2/",
    ],
)
def test_connection_string_that_cannot_work_stops_the_start_without_its_secrets(text: str) -> None:
    """Decision 45: bad configuration stops the start."""
    with pytest.raises(StartupError) as caught:
        build_client(MClient(), text)

    told = f"{caught.value.message} {caught.value.hint}"
    assert "mclient.connection-string" in told
    assert "hunter2" not in told


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("mongodb://ann:hunter2@x@host/", "'@' as %40"),
        ("mongodb://ann:hunter2/x@host/", "'/' as %2F"),
        ("mongodb://ann:hunter2?x=y@host/", "'?' as %3F"),
        ("mongodb://ann:hunter2%@host/", "'%' as %25"),
        ("mongodb://ann:hunter2@host:hunter2/", "percent-encoded"),
        ("mongodb://ann:hunter2@/", "names no host"),
        ("mongodb://host/?noSuchOption=hunter2", "option 'noSuchOption'"),
        ("mongodb://host/?w=1&retryWrites=hunter2", "option 'retryWrites'"),
        ("mongodb://hunter2@host/", "percent-encoded"),
        ("mongodb://host/?tls=true&tlsCAFile=/hunter2.pem", "option 'tlsCAFile'"),
    ],
)
def test_checking_the_configuration_finds_what_of_a_connection_string_cannot_work(
    text: str, told: str, tmp_path: Path
) -> None:
    (problem,) = problems_of(tmp_path, f"mclient:\n  connection-string: {text}\n")

    assert problem.origin.endswith("docgraph.yml:2:3")
    assert told in str(problem)
    assert "hunter2" not in str(problem)


@pytest.mark.anyio
async def test_servers_that_the_name_server_does_not_tell_are_an_error_of_the_driver(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The driver knows nothing at all of the servers of an SRV address until then."""
    client = build_client(MClient(), "mongodb+srv://nowhere.invalid/")
    path = FastPath(client)

    async def select(*_: object) -> None:
        raise ConfigurationError("The DNS query name does not exist")

    monkeypatch.setattr(client, "_select_server", select)

    assert has_free_connection(client)
    with pytest.raises(ConfigurationError):
        await path.read("shop", {"find": "customers"}, ReadPreference.PRIMARY)


@pytest.mark.anyio
async def test_a_client_whose_name_has_never_led_anywhere_can_be_closed() -> None:
    await close_client(build_client(MClient(), "mongodb+srv://nowhere.invalid/"))


def test_configured_database_wins_over_the_embedded_one() -> None:
    section = MClient(connection_string="mongodb://configured:1/")

    store = open_store(section, AggregationSecurity(), connection_string=LOCAL)

    assert store.client.options.pool_options.appname == "docgraph"
    assert list(store.client.topology_description.server_descriptions()) == [("configured", 1)]


def test_provider_gives_plugins_the_client_of_the_store() -> None:
    store = open_store(MClient(), AggregationSecurity(), connection_string=LOCAL)

    assert ClientProvider(PluginConfig(), store).get() is store.client
    assert ClientProvider.provides == "mclient"
