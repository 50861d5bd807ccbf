"""What the Helm chart renders: docgraph runs with it."""

from __future__ import annotations

import json
import os
import re
import socket
import ssl
import subprocess
import sys
import threading
from base64 import b64encode
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import bcrypt
import pytest
import trustme
import yaml
from tools.chart import CHART
from tools.containerfile import CONTAINERFILE, read_stages

from tests.process import commands
from tests.process.charts import Objects, template
from tests.process.harness import Server, Wire, eventually, request
from tests.programs import HANGS_SECONDS

CHOSEN = sorted((CHART / "ci").glob("*.yaml"))
PASSWORD = "a;b"
HASH = bcrypt.hashpw(PASSWORD.encode(), bcrypt.gensalt(4)).decode()
USER = json.dumps({"_id": "root", "password": HASH, "roles": ["admin"]})


def container_of(objects: Objects) -> dict[str, Any]:
    (own,) = objects["Deployment"]["spec"]["template"]["spec"]["containers"]
    return dict(own)


class Pod:
    """What a kubelet would make of the Deployment: its files below a directory, its variables."""

    def __init__(self, objects: Objects, secrets: dict[str, str], directory: Path) -> None:
        self.container = container_of(objects)
        self.directory = directory
        for name, text in objects["ConfigMap"]["data"].items():
            self.write(f"/etc/docgraph/{name}", text)
        self.config = yaml.safe_load(objects["ConfigMap"]["data"]["docgraph.yml"])
        port, probes = self.container["ports"]
        self.listener = f"{port['name']}-listener"
        assert self.config[self.listener]["port"] == port["containerPort"]
        assert self.config["core"]["probe-listener"]["port"] == probes["containerPort"]
        (published,) = objects["Service"]["spec"]["ports"]
        assert published["targetPort"] == port["name"]  # and no Service has the probes
        self.environment: dict[str, str] = {}
        for one in self.container["env"]:
            self.environment[one["name"]] = self._read_variable(one, secrets)

    def write(self, path: str, text: str) -> Path:
        """A file of a volume; what names it in the configuration is led to it."""
        place = self.directory / path.removeprefix("/")
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(text.replace(": /etc/", f": {self.directory}/etc/"))
        return place

    def write_certificate(self, authority: trustme.CA) -> None:
        """The Secret of `tls.secretName`."""
        certificate = authority.issue_cert("localhost")
        self.write("/etc/docgraph-tls/tls.crt", certificate.cert_chain_pems[0].bytes().decode())
        self.write("/etc/docgraph-tls/tls.key", certificate.private_key_pem.bytes().decode())

    def _read_variable(self, one: dict[str, Any], secrets: dict[str, str]) -> str:
        if "valueFrom" in one:
            return secrets[one["valueFrom"]["secretKeyRef"]["key"]]
        value = re.sub(r"\$\((\w+)\)", lambda name: self.environment[name[1]], one["value"])
        return re.sub(r"^/etc/", f"{self.directory}/etc/", value)

    @contextmanager
    def run(self) -> Iterator[Server]:
        """The container's process, until it is stopped as a kubelet stops it."""
        assert "command" not in self.container
        assert read_stages(CONTAINERFILE.read_text())["docgraph"].last("ENTRYPOINT").words == [
            "docgraph"
        ]
        # Only here others have the port, too.
        free = f"; /{self.listener}/port -> 0; /core/probe-listener/port -> 0"
        overrides = {"DOCGRAPH_OVERRIDES": self.environment["DOCGRAPH_OVERRIDES"] + free}
        environment = {**self.environment, **overrides}
        process = commands.start(
            *self.container["args"], cwd=self.directory, environment=environment
        )
        errors: list[str] = []
        reader = threading.Thread(target=lambda: errors.extend(process.stderr), daemon=True)
        reader.start()
        with process:
            line = process.stdout.readline()
            assert line.startswith("docgraph ready "), (line, errors)
            urls = [word for word in line.split() if word.startswith("http")]
            yield Server(process, urls, errors=errors)
            process.terminate()
            assert process.wait(HANGS_SECONDS) == 0
            reader.join()

    def is_fine(self, server: Server, probe: str) -> bool:
        """Whether a probe succeeds, at its port."""
        check = self.container[probe]["httpGet"]
        assert check["port"] == self.container["ports"][1]["name"]
        assert check["scheme"] == "HTTP"
        (started,) = eventually(lambda: server.named("probes-started"))
        port = int(started["url"].rpartition(":")[2])
        with Wire(socket.create_connection(("127.0.0.1", port), timeout=60)) as wire:
            return wire.get(check["path"]).status == 200


def connect(server: Server, context: ssl.SSLContext | None) -> Wire:
    return server.connect() if context is None else server.connect_tls(context)


def write_values(tmp_path: Path, database: str) -> list[str]:
    """Options for databases that are of this test alone."""
    sections = {"graphql": "db", "dbRealmAuthenticator": "users-db", "dbAclAuthorizer": "acl-db"}
    config = {section: {option: database} for section, option in sections.items()}
    config["mongo"] = {"mongo-mounts": [{"what": f"/{database}", "where": "/"}]}  # type: ignore[dict-item]
    values = {"config": config, "listenAddress": "127.0.0.1"}
    path = tmp_path / "own.yaml"
    path.write_text(yaml.safe_dump(values))
    return ["-f", str(path)]


def test_docgraph_starts_with_what_the_least_values_render_and_answers_the_probes(
    helm: str, tmp_path: Path, mongo_uri: str, database: str
) -> None:
    objects = template(
        helm, "-f", str(CHART / "ci/minimal.yaml"), *write_values(tmp_path, database)
    )
    pod = Pod(objects, {"connection-string": mongo_uri}, tmp_path)

    with pod.run() as server:
        for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
            assert eventually(partial(pod.is_fine, server, probe)), probe
        assert run_test_pod(objects, server) == "200"


def run_test_pod(objects: Objects, server: Server) -> str:
    """What the pod of `helm test` prints, when it asks this server instead of the Service."""
    (container,) = objects["Pod"]["spec"]["containers"]
    assert container["command"] == ["python3", "-c"]
    script, address = container["args"]
    service = objects["Service"]["metadata"]["name"]
    asked = address.replace(f"http://{service}:80", server.urls[0])
    done = subprocess.run(
        [sys.executable, "-c", script, asked],
        env={**os.environ, "no_proxy": "*"},
        capture_output=True,
        text=True,
        timeout=HANGS_SECONDS,
        check=False,
    )
    return done.stdout.strip()


def test_docgraph_starts_with_every_value_with_tls_and_with_secrets_in_their_places(
    helm: str, tmp_path: Path, mongo_uri: str, database: str
) -> None:
    authority = trustme.CA()
    context = ssl.create_default_context()
    authority.configure_trust(context)
    secrets = {
        "uri": mongo_uri,
        "token-key": "0123456789abcdef" * 4,
        "digest-key": 'a"\\key; that -> is #odd',
        "first-user": USER,
    }
    options = ["-f", str(CHART / "ci/everything.yaml"), *write_values(tmp_path, database)]
    pod = Pod(template(helm, *options, "--set", "tls.secretName=tls"), secrets, tmp_path)
    pod.write_certificate(authority)

    with pod.run() as server:
        for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
            assert eventually(partial(pod.is_fine, server, probe)), probe
        login = "Basic " + b64encode(f"root:{PASSWORD}".encode()).decode()
        with connect(server, context) as wire:
            wire.send(request("GET", "/roles/root", authorization=login))
            answer = wire.read()
    assert answer.status == 200
    assert len((answer["auth-token"] or "").split(".")) == 3  # a JWT


@pytest.mark.parametrize("values", CHOSEN, ids=lambda path: path.stem)
def test_the_rendered_configuration_is_one_that_docgraph_takes(
    helm: str, tmp_path: Path, values: Path
) -> None:
    objects = template(helm, "-f", str(values))
    secrets = dict.fromkeys(("uri", "MONGODB_URI", "connection-string"), "mongodb://db/")
    secrets |= {"token-key": "x" * 40, "digest-key": "y" * 40, "first-user": USER}
    pod = Pod(objects, secrets, tmp_path)
    # `config check` reads the certificate that the configuration names.
    pod.write_certificate(trustme.CA())

    done = commands.run(
        *("config", "check", pod.environment["DOCGRAPH_CONFIG"]),
        cwd=tmp_path,
        environment=pod.environment,
    )

    assert (done.returncode, "warning" in done.stderr) == (0, False), done.stderr
