"""The page on reverse proxies: nginx and Caddy in front of a real server, with its files."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
import trustme

from tests.docs.test_examples import fenced
from tests.process.harness import eventually
from tests.process.test_serve import serving
from tests.programs import require

PAGE = "docs/how-to/reverse-proxy.md"
HOST = "api.example.org"
UPSTREAM = "127.0.0.1:8080"
NGINX = """\
daemon off;
pid {directory}/nginx.pid;
error_log {directory}/error.log;
{user}
events {{}}
http {{
  access_log off;
  client_body_temp_path {directory}/body;
  proxy_temp_path {directory}/proxy;
  fastcgi_temp_path {directory}/fastcgi;
  uwsgi_temp_path {directory}/uwsgi;
  scgi_temp_path {directory}/scgi;
  {server}
}}
"""


@contextmanager
def running(command: Sequence[str], socket: Path) -> Iterator[None]:
    """A proxy that listens on a socket."""
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        try:
            eventually(lambda: socket.exists() or process.poll() is not None)
            assert process.poll() is None
            yield
        finally:
            process.terminate()


def request(socket: Path, path: str, *options: str) -> str:
    command = ["curl", "-sS", "--fail", "--unix-socket", str(socket), *options]
    done = subprocess.run([*command, path], capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stderr
    return done.stdout


def check_answers(socket: Path, base: str, *options: str) -> None:
    """The API, the console, and the address that clients know."""
    assert "docgraph" in request(socket, f"{base}/ping", *options)
    assert "<script" in request(socket, f"{base}/console", *options)
    created = request(
        socket,
        f"{base}/notes",
        *options,
        *("-i", "-H", "Content-Type: application/json", "-d", json.dumps({"_id": "a"})),
    )
    assert f"location: https://{HOST}/notes/a" in created.lower()


@pytest.fixture
def upstream(mongo_uri: str, database: str, tmp_path: Path) -> Iterator[str]:
    """The host and port of a server that trusts the proxy."""
    require("curl")
    settings = (
        f"/mclient/connection-string={mongo_uri}",
        f'/mongo/mongo-mounts=[{{"what":"/{database}","where":"/"}}]',
        f"/graphql/db={database}",
        f"/core/base-url=https://{HOST}",
        '/core/trusted-proxies=["127.0.0.1"]',
        "/dbAclAuthorizer/enabled=false",
        "/dbRealmAuthenticator/enabled=false",
        "/basicAuthMechanism/enabled=false",
        "/logging/level=error",
    )
    with serving(tmp_path, *settings) as (_, address):
        direct = ["curl", "-sS", "--fail", "-X", "PUT", f"{address}/notes"]
        subprocess.run(direct, check=True, capture_output=True, timeout=60)
        yield address.removeprefix("http://")


@pytest.fixture
def socket() -> Iterator[Path]:
    """The path of a socket, short enough for every system."""
    with TemporaryDirectory() as directory:
        yield Path(directory, "proxy.sock")


@pytest.mark.usefixtures("preloaded")
def test_nginx_serves_with_the_file_of_the_page(
    upstream: str, tmp_path: Path, socket: Path
) -> None:
    require("nginx")
    authority = trustme.CA()
    certificate = authority.issue_cert(HOST)
    authority.cert_pem.write_to_path(tmp_path / "ca.pem")
    certificate.cert_chain_pems[0].write_to_path(tmp_path / "server.pem")
    certificate.private_key_pem.write_to_path(tmp_path / "server.key")
    (server,) = fenced(PAGE, "nginx")
    for found, wanted in (
        ("listen 443 ssl", f"listen unix:{socket} ssl"),
        ("/etc/ssl/api.example.org.pem", f"{tmp_path}/server.pem"),
        ("/etc/ssl/api.example.org.key", f"{tmp_path}/server.key"),
        (UPSTREAM, upstream),
    ):
        assert found in server
        server = server.replace(found, wanted)
    user = "user root;" if Path("/proc/self").stat().st_uid == 0 else ""
    file = tmp_path / "nginx.conf"
    file.write_text(NGINX.format(directory=tmp_path, server=server, user=user))

    with running(["nginx", "-e", f"{tmp_path}/error.log", "-c", str(file)], socket):
        check_answers(socket, f"https://{HOST}", "--cacert", str(tmp_path / "ca.pem"))


@pytest.mark.usefixtures("preloaded")
def test_caddy_serves_with_the_file_of_the_page(
    upstream: str, tmp_path: Path, socket: Path
) -> None:
    """Without TLS: Caddy would ask an authority on the internet for a certificate."""
    require("caddy")
    (site,) = fenced(PAGE, "caddyfile")
    assert site.startswith(f"{HOST} {{\n")
    assert UPSTREAM in site
    site = site.replace(f"{HOST} {{", f"http://{HOST} {{\n\tbind unix/{socket}")
    file = tmp_path / "Caddyfile"
    file.write_text(f"{{\n\tadmin off\n}}\n{site.replace(UPSTREAM, upstream)}")
    command = ["caddy", "run", "--config", str(file), "--adapter", "caddyfile"]

    with running(command, socket):
        check_answers(socket, f"http://{HOST}")
