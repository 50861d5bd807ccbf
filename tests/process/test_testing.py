"""`docgraph.testing`: projects with tests of their own, run as their authors would."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from docgraph.exchange import StartupError
from docgraph.testing import running_app
from docgraph.testing.app_client import find_difference
from tests.databases import drop, new_name
from tests.http.harness import Mongo
from tests.process.commands import ROOT, run
from tests.programs import HANGS_SECONDS

PLUGIN = "docgraph.pytest_plugin"
DESK = ROOT / "examples/desk"
SCHEMA = """
type Query { orders(status: String): [Order] }
type Order { number: Int customer: Customer }
type Customer { name: String email: String @visible(roles: ["staff"]) }
"""
MAPPINGS = """
Query:
  orders: {db: DB, collection: orders, find: {status: {$arg: status}}, sort: {_id: 1}}
Order:
  number: _id
  customer: {db: DB, collection: customers, find: {_id: {$fk: customer}}}
"""
FILES = {
    "apps/shop/schema.graphql": SCHEMA,
    "apps/shop/mappings.yml": MAPPINGS,
    "apps/shop/app.yml": "_id: shop\ndescriptor: {cache: {enabled: true}}\n",
    "documents/DB/orders.json": '[{"_id": 1, "status": "open", "customer":'
    ' {"$oid": "64b7f0000000000000000001"}},'
    ' {"_id": 2, "status": "sent", "customer": {"$oid": "64b7f0000000000000000001"}}]',
    "documents/DB/customers.yml": '- {_id: {$oid: "64b7f0000000000000000001"}, name: Ada}',
    "documents/DB/acl.yml": "- {_id: 1, roles: [guest], predicate: path-prefix('/graphql')}",
    "docgraph.yml": "graphql: {db: DB}\ndbAclAuthorizer: {acl-db: DB}\n"
    "dbRealmAuthenticator: {users-db: DB}\n"
    "fullAuthorizer: {enabled: true, authentication-required: false}\n",
}
CONFTEST = """
import os
import pytest

@pytest.fixture(scope="session")
def docgraph_mongo():
    return os.environ["MONGO"]
"""
TESTS = """
import pytest

QUERY = "query ($s: String) { orders(status: $s) { number customer { name } } }"

def test_an_answer(docgraph_client):
    answer = docgraph_client.query(QUERY, {"s": "open"})
    assert answer.data == {"orders": [{"number": 1, "customer": {"name": "Ada"}}]}

def test_cost(docgraph_app, docgraph_client):
    docgraph_app.mongo["DB"]["orders"].create_index({"status": 1, "_id": 1})
    for _ in range(3):  # no answer comes from a cache
        answer = docgraph_client.query(QUERY, {"s": "open"})
        assert answer.commands == 2
        assert answer.documents_examined == 2
        assert answer.plans == {"IXSCAN { status: 1, _id: 1 }", "IDHACK"}

def test_visibility(docgraph_client):
    docgraph_client.assert_hidden("Customer.email", roles=["guest"])
    docgraph_client.assert_hidden("Customer.email")
    with pytest.raises(AssertionError, match="Customer.email is visible with the roles"):
        docgraph_client.assert_hidden("Customer.email", roles=["staff"])
    with pytest.raises(ValueError, match="the schema has no field Customer.mail"):
        docgraph_client.assert_hidden("Customer.mail")

def test_roles_that_nothing_names_are_rejected(docgraph_client):
    with pytest.raises(ValueError, match=r"names \\['staf'\\], only .*'guest', .*'staff'"):
        docgraph_client.query(QUERY, roles=["staf"])
    with pytest.raises(ValueError, match="there is no app 'shops'"):
        docgraph_client.query(QUERY, app="shops")

def test_errors_are_readable(docgraph_client):
    with pytest.raises(AssertionError, match="status 400(.|\\n)*nothing"):
        docgraph_client.query("{ nothing }").data

@pytest.mark.parametrize("number", range(3))
def test_documents_are_those_of_the_files(docgraph_app, docgraph_client, number):
    orders = docgraph_app.mongo["DB"]["orders"]
    assert orders.count_documents({}) == 2
    orders.insert_one({"_id": 3, "status": "open"})
    assert docgraph_app.mongo["DB"]["new"].count_documents({}) == 0
    docgraph_app.mongo["DB"]["new"].insert_one({})
    data = docgraph_client.query("{ orders(status: \\"open\\") { number } }").data
    assert data == {"orders": [{"number": 1}, {"number": 3}]}
    assert docgraph_client.get("/ping?x={}").status == 200

def test_snapshot(docgraph_client):
    docgraph_client.assert_answer(docgraph_client.query(QUERY, {"s": "open"}), "shots/open.json")
"""
WITH_UNITTEST = """
import os
import unittest
from docgraph.testing import AppClient, running_app

class ShopTest(unittest.TestCase):
    def test_orders(self):
        with running_app(os.environ["MONGO"], ".") as app:
            client = AppClient(app)
            data = client.query("{ orders(status: \\"sent\\") { number } }").data
            self.assertEqual(data, {"orders": [{"number": 2}]})
"""


@pytest.fixture
def project(tmp_path: Path, mongo_client: Mongo, mongo_uri: str) -> Iterator[Path]:
    """A directory with an app, its documents, and tests."""
    db = new_name()
    tests = {"test_shop.py": TESTS, "conftest.py": CONFTEST, "unit_shop.py": WITH_UNITTEST}
    for name, text in (FILES | tests).items():
        path = tmp_path / name.replace("DB", db)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text.replace("DB", db))
    yield tmp_path
    drop(mongo_client, db)


def start(place: Path, *arguments: str, **environment: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", *arguments],
        cwd=place,
        env={**os.environ, **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def finish(process: subprocess.Popen[str]) -> str:
    with process:
        return process.communicate(timeout=HANGS_SECONDS)[0]


def run_pytest(place: Path, *options: str, **environment: str) -> str:
    quiet = ("-q", "-p", "no:randomly", "-p", "no:schemathesis", "-p", "no:cacheprovider")
    return finish(start(place, "pytest", *quiet, *options, **environment))


def test_a_project_is_tested(project: Path, mongo_uri: str) -> None:
    """The kit stands on the ASGI application (decision 74)."""
    output = run_pytest(project, "-k", "not snapshot", MONGO=mongo_uri)

    assert "8 passed, 1 deselected" in output, output


@pytest.mark.second_tier("runs pytest three times")
def test_a_snapshot_is_written_and_compared(project: Path, mongo_uri: str) -> None:
    file = project / "shots/open.json"
    missing = run_pytest(project, "-k", "snapshot", MONGO=mongo_uri)
    assert (
        "open.json: answer: expected null, got nothing" in missing or "writes the file" in missing
    )

    written = run_pytest(project, "-k", "snapshot", "--docgraph-update", MONGO=mongo_uri)
    assert "1 passed" in written, written
    assert json.loads(file.read_text())["data"]["orders"][0]["customer"] == {"name": "Ada"}

    file.write_text(file.read_text().replace("Ada", "Bob"))
    different = run_pytest(project, "-k", "snapshot", MONGO=mongo_uri)
    assert 'data.orders[0].customer.name: expected "Bob", got "Ada"' in different


@pytest.mark.second_tier("starts an application more")
def test_it_works_with_unittest(project: Path, mongo_uri: str) -> None:
    output = finish(start(project, "unittest", "unit_shop", MONGO=mongo_uri))

    assert output.endswith("OK\n"), output


def test_the_plugin_imports_nothing_before_a_fixture_is_used(tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text(
        "import sys\ndef test_it():\n    assert not [m for m in sys.modules if"
        f" m.startswith('docgraph.') and m != {PLUGIN!r}]\n    assert {PLUGIN!r} in sys.modules\n"
    )

    assert "1 passed" in run_pytest(tmp_path)


def test_without_a_mongod_the_message_says_what_to_do(tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text("def test_it(docgraph_client): pass\n")

    output = run_pytest(tmp_path, DOCGRAPH_MONGOD="/nowhere/mongod")

    assert "docgraph cannot start: the mongod that DOCGRAPH_MONGOD names does not exist" in output
    assert "or set mclient.connection-string" in output
    assert "Traceback" not in output


@pytest.mark.parametrize(
    ("file", "text", "message"),
    [
        ("apps/shop/mappings.yml", "Query: [", r"shop: .*mappings.yml:2:1"),
        ("apps/shop/mappings.yml", "Query: {nothing: x}", r"shop: mappings.Query: maps no field"),
        ("documents/DB/orders.json", "[1]", r"orders.json: not every document is an object"),
        ("documents/DB/orders.json", "[{]", r"orders.json: not valid JSON"),
        ("docgraph.yml", "graphq: {}", r"docgraph.yml:1:1: /graphq"),
    ],
)
def test_a_mistake_in_a_file_is_named(project: Path, file: str, text: str, message: str) -> None:
    db = next((project / "documents").iterdir()).name
    (project / file.replace("DB", db)).write_text(text)

    with pytest.raises(StartupError, match=message), running_app("mongodb://127.0.0.1:9", project):
        pass


@pytest.mark.parametrize("arguments", [{"directory": "no/where"}, {"documents": "no/where"}])
def test_a_directory_that_does_not_exist_is_named(project: Path, arguments: dict[str, Any]) -> None:
    with (
        pytest.raises(StartupError, match="no/where"),
        running_app("mongodb://127.0.0.1:9", **{"directory": str(project), **arguments}),
    ):
        pass


@pytest.mark.parametrize(
    ("expected", "actual", "difference"),
    [
        ({"a": [1, {"b": None}]}, {"a": [1, {"b": None}]}, None),
        ({"a": [1, {"b": 2}]}, {"a": [1, {"b": 3}]}, "a[1].b: expected 2, got 3"),
        ({"a": [1]}, {"a": [1, 2]}, "a[1]: expected nothing, got 2"),
        ({"a": 1, "b": 1}, {"b": 1}, "a: expected 1, got nothing"),
        ({"a": 1}, {"a": True}, "a: expected 1, got true"),
        ({"a": []}, {"a": {}}, "a: expected [], got {}"),
        (1, 2, "answer: expected 1, got 2"),
    ],
)
def test_the_first_difference_has_a_path(
    expected: object, actual: object, difference: str | None
) -> None:
    assert find_difference(expected, actual) == difference


# --- docgraph apps test ---------------------------------------------------------------------------


@pytest.mark.usefixtures("preloaded")
@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("- name: [", "cases.yml:2:1"),
        ("- {name: x, expect: {}, quer: x}", "cases.yml: Object contains unknown field `quer`"),
        ("- {name: x, expect: {}}", "the case 'x' has neither query nor expect.hidden"),
        ("- {name: x, expect: {}, query: x, as: {roles: a}}", "as.roles is not a list"),
        (None, "there is no file of cases (.yml) in"),
    ],
)
def test_cases_that_cannot_be_read_are_named(
    tmp_path: Path, text: str | None, message: str
) -> None:
    (tmp_path / "tests").mkdir()
    if text is not None:
        (tmp_path / "tests/cases.yml").write_text(text)

    done = run("apps", "test", str(tmp_path))

    assert done.returncode == 2
    assert message in done.stderr


@pytest.mark.usefixtures("preloaded")
def test_cases_need_a_mongod_and_a_directory(tmp_path: Path) -> None:
    shutil.copytree(DESK / "tests", tmp_path / "tests")

    done = run("apps", "test", str(tmp_path), environment={"DOCGRAPH_MONGOD": "/no/mongod"})
    assert (done.returncode, "mongod that DOCGRAPH_MONGOD names" in done.stderr) == (2, True)
    done = run("apps", "test", str(tmp_path / "nowhere"))
    assert (done.returncode, "does not exist" in done.stderr) == (2, True)


FAILING = """
- name: wrong data
  query: "{ tickets(first: 1) { nodes { title } } }"
  as: {team: red, roles: [agent]}
  expect: {data: {tickets: {nodes: [{title: Something}]}}}
- name: unknown role
  query: "{ tickets { nodes { title } } }"
  as: {roles: [agents]}
  expect: {}
- name: unexpected error
  query: "{ nothing }"
  as: {team: red, roles: [agent]}
  expect: {}
- name: too expensive
  query: "{ tickets { nodes { title } } }"
  as: {team: red, roles: [agent]}
  expect: {documents-examined: 1}
- {name: visible, expect: {hidden: [Ticket.title]}}
"""


@pytest.mark.second_tier("starts a database")
@pytest.mark.usefixtures("preloaded")
def test_the_cases_of_the_desk_pass_and_others_fail(tmp_path: Path) -> None:
    desk = shutil.copytree(DESK, tmp_path / "desk")
    (desk / "tests/wrong.yml").write_text(FAILING)

    done = run("apps", "test", "desk", "--junit", "results.xml", cwd=tmp_path)

    assert done.returncode == 1, done.stderr
    lines = done.stdout.splitlines()
    assert [line[:2] for line in lines] == ["ok", "ok", *["FA"] * 5]
    places = [line.partition("desk/tests/")[2] for line in lines[2:]]
    assert places[0].startswith("wrong.yml: wrong data: data.tickets.nodes[0].title: expected")
    assert "names ['agents'], only" in places[1]
    assert "errors: expected [], got ['invalid-query']" in places[2]
    assert "documents-examined: expected at most 1, got" in places[3]
    assert "Ticket.title is visible" in places[4]
    assert "2 passed, 5 failed" in done.stderr
    suite = ElementTree.parse(tmp_path / "results.xml").getroot()  # noqa: S314 - it is ours
    assert (suite.get("tests"), suite.get("failures")) == ("7", "5")
    failures = [case.find("failure") for case in suite]
    assert [failure is not None for failure in failures] == [False] * 2 + [True] * 5


@pytest.mark.second_tier("starts two databases")
def test_the_tests_of_the_desk_pass_in_two_processes_at_a_time(tmp_path: Path) -> None:
    """As with pytest-xdist: each of its workers is a process with a database of its own."""
    desk = shutil.copytree(DESK, tmp_path / "desk")
    quiet = ("pytest", "-q", "-p", "no:randomly", "-p", "no:cacheprovider")
    workers = [start(desk, *quiet) for _ in range(2)]

    for output in map(finish, workers):
        assert "5 passed" in output, output
