"""The https listener: PEM files, TLS 1.2 and above, and words for what is wrong (S02)."""

from __future__ import annotations

import ssl
import subprocess
from pathlib import Path
from typing import Any

import pytest
import trustme

from tests.process.harness import Server, request, run_server, start
from tests.programs import require


@pytest.fixture(scope="module")
def authority() -> trustme.CA:
    return trustme.CA()


@pytest.fixture
def files(authority: trustme.CA, tmp_path: Path) -> dict[str, str]:
    """A certificate and its key."""
    issued = authority.issue_cert("localhost")
    paths = {"certificate": tmp_path / "server.pem", "key": tmp_path / "server.key"}
    issued.private_key_pem.write_to_path(paths["key"])
    for blob in issued.cert_chain_pems:
        blob.write_to_path(paths["certificate"], append=True)
    return {name: str(path) for name, path in paths.items()}


def _context(authority: trustme.CA) -> ssl.SSLContext:
    """It trusts nobody else: reading the authorities of the system takes most of a handshake."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    authority.configure_trust(context)
    return context


def _https(files: dict[str, str], **options: Any) -> dict[str, Any]:
    return {"https-listener": {"enabled": True, "port": 0, **files, **options}}


@pytest.mark.parametrize("workers", [1, 2], ids=["one-worker", "two-workers"])
def test_http_and_https_are_served_side_by_side(
    authority: trustme.CA, files: dict[str, str], workers: int
) -> None:
    with run_server(_https(files), workers=workers) as server:
        assert [url.split(":")[0] for url in server.urls] == ["http", "https"]
        assert server.get("/whoami").json["scheme"] == "http"
        with server.connect_tls(_context(authority)) as wire:
            response = wire.get("/whoami")
            assert response.json["scheme"] == "https"
            wire.send(request("GET", "/ping?" + "a" * 9 * 1024))
            assert wire.read().status == 414
        assert server.stop() == 0


def test_https_alone_needs_no_http(authority: trustme.CA, files: dict[str, str]) -> None:
    settings = {"http-listener": {"enabled": False}, **_https(files)}
    with run_server(settings) as server:
        assert server.urls[0].startswith("https://")
        with server.connect_tls(_context(authority)) as wire:
            assert wire.get("/ping").status == 200


def test_old_versions_of_tls_and_plain_http_are_turned_away(
    authority: trustme.CA, files: dict[str, str]
) -> None:
    with run_server({"http-listener": {"enabled": False}, **_https(files)}) as server:
        old = _context(authority)
        with pytest.warns(DeprecationWarning, match="TLSv1 is deprecated"):
            old.minimum_version = ssl.TLSVersion.TLSv1
        with pytest.warns(DeprecationWarning, match="TLSv1_1 is deprecated"):
            old.maximum_version = ssl.TLSVersion.TLSv1_1
        old.set_ciphers("ALL:@SECLEVEL=0")
        with pytest.raises((ssl.SSLError, ConnectionError)):
            server.connect_tls(old)
        with server.connect() as plain:
            plain.send(request("GET", "/ping"))
            assert plain.is_closed() or b"HTTP" not in plain.socket.recv(100)
        with server.connect_tls(_context(authority)) as wire:
            assert wire.socket.version() in ("TLSv1.2", "TLSv1.3")  # type: ignore[attr-defined]


def _handshake(server: Server, context: ssl.SSLContext) -> tuple[str, str] | None:
    """The version and cipher that the server agrees to; None if it does not."""
    try:
        with server.connect_tls(context) as wire:
            version, cipher = wire.socket.version(), wire.socket.cipher()  # type: ignore[attr-defined]
            assert wire.socket.compression() is None  # type: ignore[attr-defined]
            assert wire.socket.selected_alpn_protocol() in (None, "http/1.1")  # type: ignore[attr-defined]
            return version, cipher[0]
    except (ssl.SSLError, ConnectionError):
        return None


def test_every_cipher_that_is_agreed_to_has_forward_secrecy_and_authenticates(
    authority: trustme.CA, files: dict[str, str]
) -> None:
    """Each cipher that this OpenSSL knows is offered alone, as testssl.sh does it."""
    everything = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    everything.set_ciphers("ALL:COMPLEMENTOFALL:@SECLEVEL=0")
    old = [one["name"] for one in everything.get_ciphers() if one["protocol"] != "TLSv1.3"]
    agreed = {}
    with run_server({"http-listener": {"enabled": False}, **_https(files)}) as server:
        for name in old:
            context = _context(authority)
            context.maximum_version = ssl.TLSVersion.TLSv1_2
            context.set_ciphers(f"{name}:@SECLEVEL=0")
            context.set_alpn_protocols(["h2", "http/1.1"])
            if found := _handshake(server, context):
                agreed[name] = found
        newest = _handshake(server, _context(authority))
        assert server.stop() == 0
    assert newest is not None
    assert newest[0] == "TLSv1.3"
    assert agreed
    assert {version for version, _ in agreed.values()} == {"TLSv1.2"}
    for name in agreed:
        assert name.startswith("ECDHE-"), name
        assert "GCM" in name or "CHACHA20" in name, name


@pytest.mark.parametrize("version", ["-ssl3", "-tls1", "-tls1_1"])
def test_openssl_cannot_agree_with_the_server_on_an_old_version(
    files: dict[str, str], version: str
) -> None:
    require("openssl")
    with run_server({"http-listener": {"enabled": False}, **_https(files)}) as server:
        done = _openssl(server, version, "-cipher", "ALL:@SECLEVEL=0")
        assert "Cipher is ECDHE" not in done.stdout
        assert done.returncode != 0


def test_a_client_can_neither_renegotiate_nor_compress(files: dict[str, str]) -> None:
    require("openssl")
    with run_server({"http-listener": {"enabled": False}, **_https(files)}) as server:
        done = _openssl(server, "-tls1_2", input="R\n")
        assert "Secure Renegotiation IS supported" in done.stdout  # RFC 5746, against injection
        assert "Compression: NONE" in done.stdout
        assert "RENEGOTIATING" in done.stdout + done.stderr
        assert "no renegotiation" in done.stderr
        with server.connect_tls(_trusting_all()) as wire:
            assert wire.get("/ping").status == 200


def _trusting_all() -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return context


def _openssl(server: Server, *options: str, input: str = "Q\n") -> subprocess.CompletedProcess[str]:
    """A handshake of the program, which reads commands; R begins another one, Q ends it."""
    place = server.urls[0].partition("://")[2]
    command = ["openssl", "s_client", "-connect", place, *options]
    return subprocess.run(
        command, input=input, capture_output=True, text=True, timeout=60, check=False
    )


def _refusal(settings: dict[str, Any]) -> str:
    """What the command prints when it does not start; MongoDB is not started for it."""
    process = start({"http-listener": {"port": 0}, **settings})
    output, errors = process.communicate()
    assert (process.returncode, output) == (2, "")
    assert "MongoDB" not in errors
    return errors


def test_a_missing_certificate_is_named(files: dict[str, str]) -> None:
    missing = {**files, "certificate": "/nowhere/server.pem"}

    assert "cannot read /nowhere/server.pem: no such file or directory" in _refusal(_https(missing))


def test_an_option_that_is_not_set_is_named(files: dict[str, str]) -> None:
    settings = {"https-listener": {"enabled": True, "certificate": files["certificate"]}}

    assert "https-listener is on and has no key" in _refusal(settings)


@pytest.mark.parametrize(
    ("broken", "kind"), [("certificate", "certificate"), ("key", "private key")]
)
def test_a_file_that_is_not_pem_is_named(files: dict[str, str], broken: str, kind: str) -> None:
    Path(files[broken]).write_text("nonsense")

    assert f"{files[broken]} is not a {kind} in PEM form" in _refusal(_https(files))


def test_a_key_of_another_certificate_is_told(authority: trustme.CA, files: dict[str, str]) -> None:
    other = authority.issue_cert("elsewhere")
    other.private_key_pem.write_to_path(files["key"])

    message = _refusal(_https(files))

    assert f"the private key {files['key']} does not belong to {files['certificate']}" in message
