"""DNS rebinding: which `Host` a listener accepts (decision 67)."""

from __future__ import annotations

import pytest

from docgraph.exchange import Connection
from docgraph.observe.engine_events import HostRefused
from docgraph.runtime.sections import Core
from docgraph.server.host_gate import HostGate, Misdirected
from docgraph.server.proxies import TrustedProxies
from tests.http.harness import listening

LOCAL = ("127.0.0.1", 8080)
PROXIES = ("10.0.0.0/8", "unix")
OWN = (
    *("localhost", "LOCALHOST:1", "localhost.", "127.0.0.1", "127.0.0.1:8080", "127.1.2.3"),
    *("[::1]", "[::1]:80", "[0:0::1]"),
)
FOREIGN = (
    *("evil.example", "evil.example:8080", "localhost.evil.example", "127.0.0.1.evil.example"),
    *("a.localhost", "10.1.2.3", "[::]", "[::2]", "::1", "", " ", "a b", "x@localhost"),
    *(
        "localhost:",
        "localhost:0",
        "localhost:99999",
        "localhost:80:80",
        "local\u212aost",
        "2130706433",
    ),
    *("localhost/", "localhost#", "localhost?", "http://localhost", "[localhost]"),
)


def admits(
    host: str | None,
    *,
    server: tuple[str, int] | None = LOCAL,
    client: tuple[str, int] | None = ("127.0.0.1", 1),
    listener: str = "127.0.0.1",
    **options: object,
) -> bool:
    core = Core(trusted_proxies=PROXIES, **options)  # type: ignore[arg-type]
    gate = HostGate(core, TrustedProxies(PROXIES))
    try:
        gate.check(host, Connection(client, server), listener)
    except Misdirected:
        return False
    return True


@pytest.mark.parametrize("listener", ["127.0.0.1", "localhost", "127.9.9.9", "::1"])
def test_a_listener_on_loopback_accepts_no_foreign_host(listener: str) -> None:
    server = ("::1" if listener == "::1" else "127.0.0.1", 8080)
    accepted = {host: admits(host, server=server, listener=listener) for host in (*OWN, *FOREIGN)}

    # "localhost:" has an empty port, which RFC 3986 permits
    expected = dict.fromkeys((*OWN, "localhost:"), True)
    assert {host for host, is_accepted in accepted.items() if is_accepted} == expected.keys()
    assert admits(None, server=server, listener=listener)  # HTTP/1.0: no browser sends that


@pytest.mark.parametrize(
    ("listener", "server"),
    [
        ("0.0.0.0", LOCAL),  # noqa: S104 - compared with, not bound to
        ("::", ("::1", 80)),
        ("192.0.2.7", ("192.0.2.7", 80)),
        ("127.0.0.1", ("unix", 0)),
        ("127.0.0.1", None),
    ],
)
def test_other_listeners_accept_any_host_unless_hosts_are_listed(
    listener: str, server: tuple[str, int] | None
) -> None:
    assert all(admits(host, listener=listener, server=server) for host in FOREIGN)
    listed = {"listener": listener, "server": server, "allowed_hosts": ("api.example",)}
    assert admits("api.example:99", **listed)  # type: ignore[arg-type]
    assert not admits("evil.example", **listed)  # type: ignore[arg-type]
    if server is not None and server[0][0].isdigit():
        assert admits(f"{server[0]}:80", **listed)  # type: ignore[arg-type]  # health checks


def test_listed_hosts_and_the_base_url_are_accepted() -> None:
    hosts = ("api.example", "API2.example:8443", "[2001:db8::1]")
    known = {"allowed_hosts": hosts, "base_url": "https://Public.example:8443/api"}
    for host in (
        *("api.example", "API.EXAMPLE.", "api.example:1", "api2.example:8443", "[2001:DB8:0::1]"),
        *("public.example", "public.example:8443", "public.example:80", "localhost"),
    ):
        assert admits(host, **known), host  # type: ignore[arg-type]
    for host in ("x.api.example", "api2.example", "api2.example:80", "evil.example"):
        assert not admits(host, **known), host  # type: ignore[arg-type]
    assert all(admits(host, allowed_hosts=("*",)) for host in FOREIGN)


def test_a_trusted_proxy_may_send_any_host() -> None:
    """By the address of the peer, not by what it claims about its caller."""
    assert admits("evil.example", client=("10.9.9.9", 1))
    assert admits("evil.example", client=("unix", 0))
    assert not admits("evil.example", client=("11.0.0.1", 1))
    assert not admits("evil.example", client=None)


def test_the_first_refusal_is_logged_with_the_option() -> None:
    gate = HostGate(Core(), TrustedProxies(()))
    with listening(HostRefused) as logged:
        for host in ("evil.example" + "x" * 500, "other.example"):
            with pytest.raises(Misdirected, match="not accepted") as refused:
                gate.check(host, Connection(("127.0.0.1", 1), LOCAL), "127.0.0.1")
            assert "core.allowed-hosts" in (refused.value.hint or "")
    (event,) = logged
    assert (event.option, event.host[:12], len(event.host)) == (
        "/core/allowed-hosts",
        "evil.example",
        100,
    )
