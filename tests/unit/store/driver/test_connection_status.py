"""What is wrong with the way to the database, in words for whoever runs docgraph."""

from __future__ import annotations

from dataclasses import replace

import pytest
from pymongo.errors import AutoReconnect
from pymongo.server_description import ServerDescription
from pymongo.topology_description import TOPOLOGY_TYPE, TopologyDescription

from docgraph.store.driver.connection_status import ConnectionStatus, explain_errors, find_reason

CONTACT = ConnectionStatus("db:27017", "ann", "docgraph.yml:3:3")


@pytest.mark.parametrize(
    ("connection_string", "address", "user"),
    [
        ("mongodb://db", "db", ""),
        ("mongodb://ann:s3cret@db:1,other:2/shop?x=y", "db:1,other:2", "ann"),
        ("mongodb://an%40n:s3cret@db/", "db", "an@n"),
        ("mongodb://ann:s3c@ret@db/", "db", "ann"),
        ("mongodb+srv://ann:s3cret@cluster.example.com/?a=b", "cluster.example.com (SRV)", "ann"),
        ("nonsense", "", ""),
    ],
)
def test_address_and_user_are_read_without_the_password(
    connection_string: str, address: str, user: str
) -> None:
    contact = ConnectionStatus.read(connection_string, "--set")

    assert (contact.address, contact.user, contact.origin) == (address, user, "--set")
    assert "s3c" not in repr(contact)


@pytest.mark.parametrize(
    ("rest", "implied"),
    [
        ("", ""),
        ("/", ""),
        ("/shop", "shop"),
        ("/my%20shop?w=1", "my shop"),
        ("/a?authSource=b", ""),
    ],
)
def test_the_database_behind_the_host_is_where_the_user_is_looked_for(
    rest: str, implied: str
) -> None:
    assert ConnectionStatus.read(f"mongodb://ann:s3cret@db:1{rest}", "--set").implied_db == implied


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (
            "db:27017: [Errno 111] Connect call failed ('10.0.0.1', 27017)",
            "no server listens there",
        ),
        ("db:27017: [Errno 111] Connection refused", "no server listens there"),
        ("db:27017: [Errno -2] Name or service not known", "the host name is not found"),
        ("The DNS query name does not exist: _mongodb._tcp.db", "the host name is not found"),
        ("db:27017: timed out", "no answer in time"),
        (
            "/run/db.sock: [Errno 13] Permission denied, Timeout: 5.0s",
            "the operating system does not permit the connection",
        ),
        ("db:27017: not authorized, Timeout: 5.0s", "the database user lacks a permission"),
        ("SSL handshake failed: db:27017: EOF", "the TLS handshake fails"),
        (
            "SSL handshake failed: db:27017: [SSL: CERTIFICATE_VERIFY_FAILED] certificate verify "
            "failed: self-signed certificate in certificate chain (_ssl.c:1006)",
            "the TLS handshake fails: certificate verify failed: self-signed certificate in "
            "certificate chain",
        ),
        (
            "db:27017: connection closed",
            "what listens there does not speak as MongoDB does",
        ),
        ("something new", "no server answers"),
    ],
)
def test_the_words_of_the_driver_become_a_reason_and_a_way_out(text: str, reason: str) -> None:
    said = f"{text} (configured timeouts: socketTimeoutMS: 20000.0ms, connectTimeoutMS: 2000.0ms)"

    found, hint = explain_errors({said}, CONTACT, ["db:27017"])

    assert found == reason
    assert hint


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("interrupted at shutdown, full error: {'code': 11600}", "it was shut down"),
        ("db:27017: [Errno 104] Connection reset by peer", "it has closed the connections"),
        ("db:27017: [Errno 111] Connection refused", "no server listens there"),
        ("db:27017: timed out", "no answer in time"),
        ("something new", "no server answers"),
    ],
)
def test_nobody_is_asked_to_correct_an_address_that_was_right_before(
    text: str, reason: str
) -> None:
    found, hint = explain_errors({text}, CONTACT, ["db:27017"], was_there=True)

    assert found == reason
    assert "correct" not in hint
    assert "docgraph finds it again" in hint


def test_nobody_is_asked_to_start_the_embedded_database() -> None:
    embedded = replace(CONTACT, is_embedded=True)
    text = "interrupted at shutdown, full error: {'code': 11600}"

    assert "docgraph starts it again" in explain_errors({text}, embedded, was_there=True)[1]


def test_members_that_have_other_names_than_were_configured_are_named() -> None:
    reason, hint = explain_errors({"[Errno -2] unknown"}, CONTACT, ["mongo1:27017"])

    assert reason == "the replica set calls its members mongo1:27017: the host name is not found"
    assert "directConnection=true" in hint


def describe(servers: dict[tuple[str, int | None], ServerDescription]) -> TopologyDescription:
    return TopologyDescription(TOPOLOGY_TYPE.Unknown, servers, None, None, None, None)


def test_no_reason_is_given_before_the_first_look_is_over() -> None:
    place = ("db", 27017)

    assert find_reason(describe({place: ServerDescription(place)}), CONTACT) is None
    failed = ServerDescription(place, error=AutoReconnect("refused"))
    assert find_reason(describe({place: failed}), CONTACT) is not None
    assert find_reason(describe({}), CONTACT) == (
        "no server there belongs to that replica set",
        "correct replicaSet=… in mclient.connection-string",
    )
