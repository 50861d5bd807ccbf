"""CSV lists on real connections: sent while they are read, and never complete if they are not."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.databases import drop, new_name
from tests.http.harness import Mongo, failing
from tests.process.test_serve import serving
from tests.programs import require

PARTIAL_FILE = 18  # of curl
DOCUMENTS = 2_500


@pytest.fixture(scope="module")
def address(
    tmp_path_factory: pytest.TempPathFactory, mongo_uri: str, mongo_client: Mongo
) -> Iterator[str]:
    """A server with more than the database sends in one batch."""
    db = new_name()
    mongo_client[db]["things"].insert_many({"_id": n, "t": "x" * 8_000} for n in range(DOCUMENTS))
    settings = (
        f"/mclient/connection-string={mongo_uri}",
        f'/mongo/mongo-mounts=[{{"what":"/{db}","where":"/"}}]',
        "/mongo/max-pagesize=5000",
        f"/graphql/db={db}",
        f"/dbRealmAuthenticator/users-db={db}",
        "/dbAclAuthorizer/enabled=false",
        "/fullAuthorizer/enabled=true",
        "/fullAuthorizer/authentication-required=false",
    )
    try:
        with serving(tmp_path_factory.mktemp("csv"), *settings) as (_, address):
            yield address
    finally:
        drop(mongo_client, db)


@pytest.mark.parametrize("options", [(), ("--compressed",)])
def test_a_list_that_breaks_off_is_an_error_of_the_client(
    tmp_path: Path, mongo_client: Mongo, address: str, options: tuple[str, ...]
) -> None:
    require("curl")

    def export(name: str) -> tuple[int, int]:
        """The exit code of curl, and the lines that it has received."""
        url = f"{address}/things?format=csv&pagesize=5000"
        done = subprocess.run(
            ["curl", "-s", *options, "-o", name, url], check=False, timeout=60, cwd=tmp_path
        )
        return done.returncode, (tmp_path / name).read_bytes().count(b"\r\n")

    whole = export("whole.csv")
    with failing(mongo_client, "getMore", errorCode=8):
        code, lines = export("part.csv")

    assert whole == (0, DOCUMENTS + 1)
    assert code == PARTIAL_FILE
    assert 1_000 < lines < DOCUMENTS
