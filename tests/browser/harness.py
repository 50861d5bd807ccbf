"""The console of a real server, seen by people in windows of a real browser.

A `Place` is a server with a small blog, users and rules; a `Window` is a page of the browser with
cookies of its own. Tests wait for what a person would see, never for a moment.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

import pytest

from docgraph.console.service import STATIC
from tests.databases import drop, new_name
from tests.http.harness import Document, Mongo, build_definition, flatten, merge
from tests.http.realms import hashed
from tests.process.commands import ROOT, start
from tests.programs import OTHER_HOST, PATIENCE_MS, launched_browser

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Locator, Page

__all__ = [
    "ADMIN",
    "HOSTILE",
    "READER",
    "Place",
    "Window",
    "launched",
    "open_window",
    "placed",
    "rewrite",
]

ADMIN, READER = "ada", "rita"
PASSWORD = "a long enough secret"
HOSTILE = "<img src=x onerror=\"document.title='pwned'\"><script>document.title='pwned'</script>"
AXE = ROOT / "console/node_modules/axe-core/axe.min.js"
# Set to a number of ms: every answer then takes up to so long (`make drill-browser`).
SLOW_ANSWERS = "DOCGRAPH_TEST_SLOW_ANSWERS"
DELAY_ANSWERS = """
const send = window.fetch;
const pause = () => new Promise((done) => setTimeout(done, Math.random() ** 3 * %d));
window.fetch = async (...request) => {
  await pause();
  const answer = await send(...request);
  await pause();
  return answer;
};
"""
SCHEMA = """
"A post of the blog"
type Post { _id: Int!  title: String!  likes: Int  author: Author }
type Author { _id: String!  name: String!  posts: [Post] }
type Query {
  "The posts, newest first"
  posts(limit: Int = 10): [Post]
  post(id: Int!): Post
  authors: [Author]
}
"""


@dataclass
class Place:
    """A running server; `url` has no slash at its end."""

    url: str
    mongo: Mongo
    db: str

    def find(self, collection: str, find: Any = None, **others: Any) -> Document:
        """A mapping on the database of this server."""
        mapping: Document = {"db": self.db, "collection": collection, **others}
        return mapping if find is None else {**mapping, "find": find}

    def define(self, id: str, schema: str, mappings: Document, **descriptor: Any) -> None:
        """Store a definition behind the back of the server, which looks again by itself."""
        document = build_definition(id, schema, mappings, **descriptor)
        self.mongo[self.db]["gql-apps"].replace_one({"_id": id}, document, upsert=True)


@dataclass
class Window:
    """A page of the browser; `mistakes` are what its console says of errors and violations."""

    page: Page
    place: Place
    mistakes: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.page.on("pageerror", lambda error: self.mistakes.append(str(error)))
        self.page.on("console", lambda message: self._hear(message.type, message.text))

    def _hear(self, kind: str, text: str) -> None:
        # A refused request is no mistake of the page, but Chromium calls it an error.
        if kind == "error" and not text.startswith("Failed to load resource"):
            self.mistakes.append(text)

    def open(self, path: str = "") -> None:
        """Go to a page of the console, such as `/ask/blog`."""
        self.page.goto(f"{self.place.url}/console{path}")
        self.page.get_by_role("navigation", name="Pages").wait_for()

    def delay_answers(self, most_ms: int) -> None:
        """Let every answer come late and in any order, in the pages that are opened next."""
        self.page.context.add_init_script(DELAY_ANSWERS % most_ms)

    def log_in(self, name: str = ADMIN, password: str = PASSWORD) -> None:
        """Log in by the window for it, and wait until it is done."""
        self.page.get_by_role("button", name="Log in").click()
        self.give_password(name, password)
        self.page.get_by_role("button", name="Log out").wait_for()

    def give_password(self, name: str, password: str) -> None:
        """Fill in and send the form for it."""
        dialog = self.page.get_by_role("dialog", name="Log in")
        dialog.get_by_label("Name").fill(name)
        dialog.get_by_label("Password").fill(password)
        dialog.get_by_role("button", name="Log in").click()

    def write(self, label: str, text: str) -> Locator:
        """Put a text in the place of the one of an editor."""
        return rewrite(self.page.get_by_role("textbox", name=label), text)

    def look(self) -> str:
        """All that can be read on the page now, and what went wrong in it."""
        from playwright.sync_api import Error  # not installed everywhere

        try:
            text = self.page.locator("body").inner_text(timeout=5000)
        except Error as error:
            text = str(error)
        return "\n".join([text, *self.mistakes])

    def find_barriers(self) -> list[str]:
        """What axe finds serious or worse on the page as it is now."""
        if not AXE.is_file():
            pytest.skip("needs axe-core, which is not installed: make console-check")
        if not self.page.evaluate("'axe' in window"):
            self.page.evaluate(AXE.read_text())
        # A screen reader reads what has come to rest.
        # An animation whose element is gone is over, too: its promise is rejected.
        self.page.evaluate("Promise.allSettled(document.getAnimations().map(one => one.finished))")
        run = "axe.run({resultTypes: ['violations']}).then(found => found.violations)"
        return [
            f"{one['id']}: {node['html']}"
            for one in self.page.evaluate(run)
            if one["impact"] in ("serious", "critical")
            for node in one["nodes"]
        ]

    def find_barriers_on_any_screen(self) -> list[str]:
        """What axe finds on a wide screen, light and dark, and on a narrow and dark one."""
        found = []
        screens: list[tuple[Literal["light", "dark"], int]] = [
            ("light", 1280),
            ("dark", 1280),
            ("dark", 360),
        ]
        for scheme, width in screens:
            self.page.emulate_media(color_scheme=scheme)
            self.page.set_viewport_size({"width": width, "height": 720})
            found += self.find_barriers()
            if self.page.evaluate("document.documentElement.scrollWidth") > width:
                found.append(f"wider than {width}")
        return found


@contextmanager
def launched() -> Iterator[Browser]:
    """A browser; skips the test that asks where there is none, or no console."""
    if not (STATIC / "manifest.json").is_file():
        pytest.skip("needs the console, which is not built: make console")
    with launched_browser() as browser:
        yield browser


@contextmanager
def open_window(browser: Browser, place: Place, **options: Any) -> Iterator[Window]:
    """A window without a history; at its end nothing has gone wrong in it."""
    with browser.new_context(**{"viewport": {"width": 1280, "height": 800}, **options}) as context:
        context.set_default_timeout(PATIENCE_MS)
        window = Window(context.new_page(), place)
        if SLOW_ANSWERS in os.environ:
            window.delay_answers(int(os.environ[SLOW_ANSWERS]))
        yield window
        assert not window.mistakes, window.mistakes
        assert window.page.title() != "pwned", "a value has become a script"


@contextmanager
def placed(mongo: Mongo, uri: str, *settings: Mapping[str, Any]) -> Iterator[Place]:
    """A server on a database of its own, with the blog."""
    db = new_name()
    place = Place("", mongo, db)
    _fill(place)
    own: Document = {
        "core": {
            "name": "Blog & <b>more</b>",
            "plugins-directory": "/nonexistent",
            "allowed-hosts": [OTHER_HOST],
        },
        "graphql": {"db": db},
        "mclient": {"connection-string": uri, "min-pool-size": 0},
        "dbAclAuthorizer": {"acl-db": db},
        "dbRealmAuthenticator": {
            "users-db": db,
            "bcrypt-hashed-password": True,
            "bcrypt-complexity": 4,
            "create-user": False,
        },
        "mongo": {"mongo-mounts": [{"what": f"/{db}", "where": "/"}]},
        "http-listener": {"port": 0},
        "logging": {"level": "error"},
    }
    process = start("serve", *(f"--set={one}" for one in flatten(merge(own, *settings))))
    try:
        line = process.stdout.readline()
        assert line.startswith("docgraph ready http://"), process.communicate()
        place.url = line.split()[2].rstrip("/")
        yield place
    finally:
        process.terminate()
        process.communicate()
        drop(mongo, db)


def rewrite(editor: Locator, text: str) -> Locator:
    """Put a text in the place of the one of an editor, which may be drawn again meanwhile."""
    # Its own key selects in its state; what `fill` selects in the page, the next drawing undoes.
    editor.press("ControlOrMeta+a")
    editor.fill(text)
    return editor


def _fill(place: Place) -> None:
    """The blog, whom it belongs to, and who may read it."""
    db = place.mongo[place.db]
    secret = hashed(PASSWORD)
    db["users"].insert_many(
        [
            {"_id": ADMIN, "password": secret, "roles": ["admin"]},
            {"_id": READER, "password": secret, "roles": ["reader"]},
            {"_id": HOSTILE, "password": secret, "roles": [HOSTILE]},
        ]
    )
    db["acl"].insert_many(
        [
            {"_id": "everybody", "predicate": "path-prefix('/graphql/blog')", "priority": 1,
             "roles": ["$unauthenticated", "reader"]},
        ]
    )  # fmt: skip
    db["authors"].insert_many([{"_id": "ann", "name": "Ann"}, {"_id": "bob", "name": HOSTILE}])
    db["posts"].insert_many(
        {"_id": number, "title": HOSTILE if number == 2 else f"Post {number}", "likes": number * 3,
         "author": "bob" if number == 2 else "ann"}
        for number in range(1, 31)
    )  # fmt: skip
    mappings = {
        "Query": {
            "posts": place.find("posts", {}, sort={"_id": -1}, limit={"$arg": "limit"}),
            "post": place.find("posts", {"_id": {"$arg": "id"}}),
            "authors": place.find("authors", {}),
        },
        "Post": {"author": place.find("authors", {"_id": {"$fk": "author"}})},
        "Author": {"posts": place.find("posts", {"author": {"$fk": "_id"}}, sort={"_id": 1})},
    }
    place.define("blog", SCHEMA, mappings, description="Posts and their authors")
    place.define("vault", SCHEMA, mappings, description="For administrators")
    place.define("hostile", SCHEMA, mappings, description=HOSTILE)
