"""Commands of `docgraph` on pages: each is run in order, on a database of this test."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import pytest
import yaml

from docgraph.store import names
from tests.databases import drop, new_name
from tests.docs.test_curl_pages import settle
from tests.docs.test_examples import ROOT, fenced
from tests.http.harness import Mongo
from tests.process.commands import run
from tests.process.harness import run_server
from tests.process.test_serve import serving
from tests.programs import HANGS_SECONDS, require

TUTORIAL = "docs/tutorial/your-own-data.md"
SERVED = "http://localhost:8080"
PASSWORD = "a long enough secret\n"
PAGES = [
    "docs/explanation/stability.md",
    "docs/how-to/back-up-and-move.md",
    "docs/how-to/definitions-in-ci.md",
    "docs/how-to/go-live.md",
    "docs/how-to/grant-access.md",
    "docs/how-to/infer.md",
    "docs/how-to/upgrade-and-uninstall.md",
    "docs/how-to/users.md",
    "docs/how-to/watch-it.md",
    "docs/reference/definitions.md",
]
# Other programs: they need a network, a service manager, root, or what the machine may not have.
NOT_RUN = (
    *("/opt/", "curl ", "export ", "git ", "grep ", "install ", "kill ", "mongodump ", "pip "),
    *("mongorestore ", "pwgen ", "python ", "python3 ", "rm ", "systemctl ", "until "),
    "docgraph mongod",  # and what follows in the background
)
# A line break that does not end the command: behind a backslash, or in the body of a request.
QUOTED_BREAK = re.compile(r"\\\n|\n(?=[^']*'(?:[^']*'[^']*')*[^']*$)")
BLOG = {
    "_id": "blog",
    "schema": "type Query { posts: [Post] }\ntype Post { title: String }",
    "mappings": {"Query": {"posts": {"db": "docgraph", "collection": "posts", "find": {}}}},
}
RULES = "- {role: editor, predicate: path-prefix('/graphql/blog')}\n"


def find_commands(page: str) -> Iterator[str]:
    """Yield each command of the page, without those that the output goes to."""
    text = (ROOT / page).read_text()
    for block in re.findall(r"^ *```sh\n(.*?)^ *```", text, re.MULTILINE | re.DOTALL):
        for line in QUOTED_BREAK.sub(" ", block).splitlines():
            if not line.strip().startswith(NOT_RUN):
                yield re.split(r" [|>] ", line.strip())[0]


def run_shell(script: str, directory: Path) -> str:
    """Run a script of a page, and return its output."""
    done = subprocess.run(
        ["bash", "-eu", "-o", "pipefail", "-c", script],
        capture_output=True,
        text=True,
        timeout=HANGS_SECONDS,
        cwd=directory,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def write_files(directory: Path, uri: str, db: str) -> None:
    """Write the files of the pages: the app and the data are those of the tutorial."""
    _, mappings, app = fenced(TUTORIAL, "yaml")
    shop = directory / "apps/shop"
    shop.mkdir(parents=True)
    (shop / "schema.graphql").write_text(fenced(TUTORIAL, "graphql")[0])
    (shop / "mappings.yml").write_text(mappings.replace("db: shop", f"db: {db}"))
    (shop / "app.yml").write_text(app)
    shutil.copytree(shop, directory / "shop")
    blog = json.dumps(BLOG).replace('"docgraph"', f'"{db}"')
    (directory / "blog.json").write_text(blog)
    (directory / "more.json").write_text(blog.replace('"blog"', '"more"'))
    (directory / "rules.yml").write_text(RULES)
    (directory / "probe").write_text(PASSWORD)
    for name in ("docgraph.yml", "other.yml"):
        (directory / name).write_text("core:\n  workers: 1\n")
    fill = fenced(TUTORIAL, "python")[0].replace('client["shop"]', f'client["{db}"]')
    filled = run(uri, code=fill, cwd=directory)
    assert filled.returncode == 0, filled.stderr


def override(uri: str, db: str) -> dict[str, str]:
    """Return the environment of commands whose data are in one database."""
    places = ("graphql/db", "dbAclAuthorizer/acl-db", "dbRealmAuthenticator/users-db")
    values = {"mclient/connection-string": uri, **dict.fromkeys(places, db)}
    cheap = {"dbRealmAuthenticator/bcrypt-complexity": 4}
    return {
        "DOCGRAPH_OVERRIDES": "; ".join(
            f"/{key} -> {json.dumps(one)}" for key, one in (values | cheap).items()
        ),
        "DOCGRAPH_CONFIG": "docgraph.yml",
    }


def run_commands(
    commands: Sequence[str], directory: Path, environment: Mapping[str, str], db: str
) -> None:
    assert commands
    for command in commands:
        adapted = command.replace("--db shop", f"--db {db}").replace("/run/secrets/", "./")
        words = shlex.split(adapted, comments=True)
        assert words[0] == "docgraph", command
        typed = "y\n" if "remove" in words else PASSWORD if words[1] == "users" else "y\n"
        done = run(*words[1:], cwd=directory, input=typed, environment=environment)
        assert done.returncode == 0, (command, done.stdout, done.stderr)


@pytest.mark.usefixtures("preloaded")
@pytest.mark.parametrize("page", PAGES)
def test_the_commands_of_a_page_work_one_after_the_other(
    mongo_client: Mongo, mongo_uri: str, tmp_path: Path, page: str
) -> None:
    db = new_name()
    try:
        write_files(tmp_path, mongo_uri, db)
        run_commands(list(find_commands(page)), tmp_path, override(mongo_uri, db), db)
    finally:
        drop(mongo_client, db)


def test_every_target_of_make_on_a_page_exists() -> None:
    makefile = (ROOT / "Makefile").read_text()
    drills = [(one.stem, one.read_text()) for one in ROOT.glob("tests/drills/drill_*.py")]
    known = {
        *re.findall(r"^([a-z][a-z-]*):", makefile, re.MULTILINE),
        *(stem.replace("_", "-") for stem, _ in drills),
        *(f"drill-{one}" for _, text in drills for one in re.findall(r"test_([fl]\d+)_", text)),
    }
    named = {
        target
        for page in (*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"))
        for target in re.findall(r"(?:`|^ *)make ([a-z][a-z0-9-]*)", page.read_text(), re.MULTILINE)
    }
    assert named
    assert named - known == set()


@pytest.mark.usefixtures("preloaded")
def test_uninstalling_drops_what_docgraph_stored_and_nothing_else(
    mongo_client: Mongo, mongo_uri: str, tmp_path: Path
) -> None:
    (script,) = fenced("docs/how-to/upgrade-and-uninstall.md", "js")
    dropped = json.loads(re.findall(r"\[.*?\]", script, re.DOTALL)[0])
    stores = {value for name, value in vars(names).items() if name.endswith("_STORE")}
    assert set(dropped) == stores | {"gql-apps", "users", "acl"}
    db = new_name()
    try:
        write_files(tmp_path, mongo_uri, db)
        own = set(mongo_client[db].list_collection_names())
        storing = ["docgraph apps apply apps --open-to everybody", "docgraph users add ada"]
        run_commands(storing, tmp_path, override(mongo_uri, db), db)
        assert set(mongo_client[db].list_collection_names()) > own
        for name in dropped:
            mongo_client[db].drop_collection(name)
        assert set(mongo_client[db].list_collection_names()) == own
    finally:
        drop(mongo_client, db)


@pytest.mark.usefixtures("preloaded")
def test_the_certificate_of_the_page_serves_https(tmp_path: Path) -> None:
    require("bash", "curl", "openssl")
    page = "docs/how-to/tls.md"
    (commands,), (listeners, _) = fenced(page, "sh"), fenced(page, "yaml")
    create, curl = commands.split("curl ")
    run_shell(create, tmp_path)
    settings = yaml.safe_load(listeners.replace("/etc/docgraph/", f"{tmp_path}/"))
    for one in settings.values():
        one.update({"host": "127.0.0.1", "port": 0})
    with run_server({**settings, "ping": {"enabled": True}}) as server:
        address = server.urls[-1].replace("127.0.0.1", "localhost")
        assert address.startswith("https:")
        command = "curl -sf " + curl.replace("https://localhost:4443", address)
        assert run_shell(command, tmp_path) != ""


@pytest.mark.usefixtures("preloaded")
def test_the_preflight_request_of_the_page_is_answered_as_it_says(
    mongo_client: Mongo, mongo_uri: str, tmp_path: Path
) -> None:
    require("bash", "curl")
    page = "docs/how-to/cors.md"
    (command,), (settings,) = fenced(page, "sh"), fenced(page, "yaml")
    (tmp_path / "docgraph.yml").write_text(settings)
    promised = re.findall(r"`(Access-Control-Allow-[^`]*: [^`]*)`", (ROOT / page).read_text())
    db = new_name()
    try:
        with serving(tmp_path, *settle(mongo_uri, db)) as (_, address):
            adapted = command.replace("curl ", "curl -s ").replace(SERVED, address)
            answer = run_shell(adapted, tmp_path)
    finally:
        drop(mongo_client, db)
    assert len(promised) == 2
    assert {line.lower() for line in promised} <= set(answer.lower().splitlines())


def test_variables_of_the_page_override_options_and_secrets_are_masked(tmp_path: Path) -> None:
    require("bash")
    (commands,) = fenced("docs/how-to/environment-variables.md", "sh")
    program = f'docgraph() {{ {shlex.quote(sys.executable)} -m docgraph "$@" | tee all; }}\n'
    assert "db.example.com" in run_shell(program + commands, tmp_path)
    shown = (tmp_path / "all").read_text()
    assert "db.example.com" in shown
    assert "secret" not in shown
    assert "DOCGRAPH_OVERRIDES" in shown
    assert "8081" in shown
