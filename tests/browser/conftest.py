"""Fixtures of the tests in a browser: one browser for all of them, one server for each module."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from typing import TYPE_CHECKING

import pytest

from tests.browser.harness import Place, Window, launched, open_window, placed
from tests.http.harness import Mongo

if TYPE_CHECKING:
    from playwright.sync_api import Browser


@pytest.fixture(scope="package")
def browser(preloaded: None) -> Iterator[Browser]:
    """The only browser of the process, which cannot have two; there may be none on the machine."""
    with launched() as one:
        yield one


@pytest.fixture(scope="module")
def place(browser: Browser, mongo_client: Mongo, mongo_uri: str) -> Iterator[Place]:
    """The server of the module."""
    with placed(mongo_client, mongo_uri) as one:
        yield one


@pytest.fixture
def window(browser: Browser, place: Place) -> Iterator[Window]:
    """A window of this test alone, in which nobody is logged in."""
    with open_window(browser, place) as one:
        yield one


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Say what the window showed when the test failed: the cause is often written there."""
    report = yield
    window = getattr(item, "funcargs", {}).get("window")
    if report.when == "call" and report.failed and isinstance(window, Window):
        report.sections.append((f"What {window.page.url} shows", window.look()))
    return report
