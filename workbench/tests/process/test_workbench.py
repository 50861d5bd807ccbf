"""A server loads the workbench (inferring, advising, leak checks) when `/_tools` is first used."""

from __future__ import annotations

import json

import pytest
from pymongo import MongoClient
from tests.process.harness import Wire, request, run_server

Mongo = MongoClient[dict[str, object]]

FOR_EVERY_SERVER = {
    "docgraph.authoring",
    "docgraph.authoring.sections",  # the options
    "docgraph.authoring.service",
}


def find_loaded(wire: Wire) -> set[str]:
    """The modules of the workbench in the process that this connection leads to."""
    modules = wire.get("/modules").json["modules"]
    assert "docgraph.graphql.http.service" in modules
    return {
        name
        for name in modules
        if f"{name}.".startswith(("docgraph.authoring.", "docgraph_workbench."))
    }


@pytest.mark.parametrize("workers", [1, 2])
def test_the_workbench_is_loaded_by_the_first_request_to_the_tools(
    mongo_uri: str, mongo_client: Mongo, database: str, workers: int
) -> None:
    mongo_client[database]["posts"].insert_one({"_id": 1, "title": "Hello"})
    settings = {
        "mclient": {"connection-string": mongo_uri},
        "graphql": {"db": database},
        "dbRealmAuthenticator": {"users-db": database},
        "dbAclAuthorizer": {"acl-db": database},
        "fullAuthorizer": {"enabled": True, "authentication-required": False},
        "mongo": {"enabled": True, "uri": "/data"},
    }
    with (
        run_server(settings, workers=workers, preloaded=False) as server,
        server.connect() as wire,
    ):
        assert wire.get("/_tools/infer").status == 405  # rejected: no tool runs
        assert find_loaded(wire) == FOR_EVERY_SERVER

        body = json.dumps({"db": database}).encode()
        wire.send(request("POST", "/_tools/infer", body, content_type="application/json"))
        inferred = wire.read()

        assert inferred.status == 200, inferred.body
        assert "type Post {" in inferred.json["definition"]["schema"]
        assert find_loaded(wire) > {*FOR_EVERY_SERVER, "docgraph_workbench.infer.infer"}
