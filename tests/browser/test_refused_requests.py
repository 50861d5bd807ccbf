"""No page sends requests that are refused: what the caller may not do is not even tried."""

from __future__ import annotations

import pytest

from tests.browser.harness import READER, Place, Window

PAGES = [
    "",
    "/ask",
    "/ask/blog",
    "/ask/vault",
    "/ask/none",
    "/apps",
    "/apps/blog",
    "/apps/blog#collections",
    "/apps/none#new",
    "/data",
    "/data/posts",
    "/data/posts#id=30",
    "/data/posts#new=",
    "/data/posts#view=indexes",
    "/data/acl",
    "/data/posts#filter=%7B%22a%22%3A1%7D",
    "/access",
    "/access/users#new",
    "/access/rules#new",
    "/access/why",
    "/access/look",
    "/live",
    "/live/posts",
    "/live/posts/_streams/all",
    "/status",
    "/nowhere",
]
# Counts what the page has begun: requests without an answer, and work that waits for a moment.
COUNT = """
    const own = { requests: 0, timers: new Set(), refused: [] };
    window.testCounts = own;
    const { fetch: send, setTimeout: plan, clearTimeout: cancel } = window;
    window.fetch = async (path, options) => {
        own.requests += 1;
        try {
            const reply = await send(path, options);
            if ([401, 403].includes(reply.status))
                own.refused.push(`${reply.status} ${options?.method ?? 'GET'} ${path}`);
            return reply;
        } finally {
            own.requests -= 1;
        }
    };
    window.setTimeout = (work, delay = 0, ...rest) => {
        if (delay > 2000) return plan(work, delay, ...rest);
        const run = () => { own.timers.delete(timer); work(...rest); };
        const timer = plan(run, delay);
        own.timers.add(timer);
        return timer;
    };
    window.clearTimeout = (timer) => { own.timers.delete(timer); cancel(timer); };
    window.testRest = async () => {
        const has = (selector) => document.querySelector(selector) !== null;
        const isAtRest = () =>
            own.requests === 0 && own.timers.size === 0 && has('main') && !has('.loading');
        for (let rounds = 0; rounds < 5;) {
            await new Promise(resolve => requestAnimationFrame(() => plan(resolve)));
            rounds = isAtRest() ? rounds + 1 : 0;
        }
        return own.refused;
    };
"""
READS = {"_id": "reads", "predicate": "path-prefix('/posts') and method(GET)", "roles": ["reader"]}


@pytest.fixture(scope="module", autouse=True)
def rule(place: Place) -> None:
    """The reader may read the posts, and do nothing else."""
    place.mongo[place.db]["acl"].insert_one(READS)


def find_refused(window: Window, path: str) -> list[str]:
    """Open a page, wait until it rests, and return the requests that were refused."""
    window.page.goto("about:blank")  # an address that differs behind # alone is no new page
    window.page.goto(f"{window.place.url}/console{path}")
    refused: list[str] = window.page.evaluate("testRest()")
    return [f"{path}: {one}" for one in refused]


def test_nothing_is_refused_to_an_anonymous_caller(window: Window) -> None:
    window.page.add_init_script(COUNT)
    assert [one for path in PAGES for one in find_refused(window, path)] == []


def test_nothing_is_refused_to_a_reader(window: Window) -> None:
    window.page.add_init_script(COUNT)
    window.open()
    window.log_in(READER)
    assert [one for path in PAGES for one in find_refused(window, path)] == []


def test_nothing_is_refused_after_logging_out(window: Window) -> None:
    """The rights of the page are those of the next caller at once."""
    window.page.add_init_script(COUNT)
    window.open("/access/users")
    window.log_in()
    for path in ("/access/users", "/data/posts", "/apps", "/status"):
        window.page.goto("about:blank")
        window.open(path)
        window.page.evaluate("testRest()")
        window.page.get_by_role("button", name="Log out").click()
        window.page.get_by_role("button", name="Log in").wait_for()
        assert (path, window.page.evaluate("testRest()")) == (path, [])
        window.log_in()


def test_the_count_sees_a_refused_request(window: Window) -> None:
    window.page.add_init_script(COUNT)
    window.open()
    window.page.evaluate("void setTimeout(() => fetch('/acl'), 300)")
    assert window.page.evaluate("testRest()") == ["401 GET /acl"]
