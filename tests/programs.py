"""Programs that a machine may not have: a test that needs one is skipped with a line about it."""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Locator
    from playwright.sync_api._generated import LocatorAssertions

__all__ = [
    "HANGS_SECONDS",
    "OTHER_HOST",
    "PATIENCE_MS",
    "expect",
    "launched_browser",
    "open_terminal",
    "require",
    "require_semaphores",
    "run_program",
]

# A host that browsers take for another machine: plain http to it is no trustworthy origin.
OTHER_HOST = "other.example"
# The first is the same browser without the frame that nobody sees: it costs half as much.
_BROWSERS = (
    "chromium-headless-shell",
    "chromium",
    "chromium-browser",
    "google-chrome-stable",
    "google-chrome",
)
# The first two are pages of the browser's own that each window loads, at the cost of a page of
# ours; of an option that is given twice only one counts, so the others repeat Playwright's.
_FEATURES_OFF = (
    "WebUIOmniboxPopup",
    "WebUIOmniboxAimPopup",
    "HttpsUpgrades",
    "MediaRouter",
    "OptimizationHints",
    "PaintHolding",
)
_BROWSER_OPTIONS = (
    "--no-sandbox",  # in a container the sandbox has not what it needs
    "--disable-gpu",
    "--in-process-gpu",
    "--disable-site-isolation-trials",
    "--renderer-process-limit=1",
    f"--host-resolver-rules=MAP {OTHER_HOST} 127.0.0.1",
    f"--disable-features={','.join(_FEATURES_OFF)}",
)
# How long a page may take for what a person waits for, on a machine that is far too busy.
PATIENCE_MS = 60_000
# What takes so long even on a machine that is far too busy does not end any more.
HANGS_SECONDS = 240


def require(*names: str) -> None:
    """Skip the test that asks, unless every one of these programs is found."""
    missing = [name for name in names if shutil.which(name) is None]
    if missing:
        pytest.skip(f"needs a program that is not installed: {', '.join(missing)}")


def open_terminal() -> tuple[int, int]:
    """Both ends of a pseudo terminal; skip the test where the machine has none (no /dev/pts)."""
    try:
        return os.openpty()
    except OSError as error:
        pytest.skip(f"needs a pseudo terminal, which this machine does not offer: {error}")


def require_semaphores() -> None:
    """Skip the test where processes cannot have locks in common (no /dev/shm)."""
    try:
        multiprocessing.get_context("fork").Lock()
    except OSError as error:
        pytest.skip(f"needs locks of several processes, which this machine does not offer: {error}")


async def run_program(*command: str, cwd: Path | None = None) -> subprocess.CompletedProcess[bytes]:
    """What a program says until it ends.

    Never by a subprocess of the event loop: uvloop runs Python between fork and exec, in a child
    that shares what the loops of applications in other threads wait with, and may take it away.
    """
    run = subprocess.run
    return await asyncio.to_thread(
        run, command, cwd=cwd, capture_output=True, timeout=HANGS_SECONDS
    )


def expect(shown: Locator) -> LocatorAssertions:
    """Wait until the page shows it like that: a page is drawn when it comes to it, never before."""
    from playwright.sync_api import expect as wait  # not installed everywhere

    wait.set_options(timeout=PATIENCE_MS)
    return wait(shown)


@contextmanager
def launched_browser() -> Iterator[Browser]:
    """A Chromium; skips the test that asks where there is none, or no Playwright."""
    if find_spec("playwright") is None:
        pytest.skip("needs Playwright, which is not installed: make drill-browser")
    path = next(filter(None, map(shutil.which, _BROWSERS)), None)
    if path is None:
        pytest.skip("needs a browser that is not installed: chromium")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=[*_BROWSER_OPTIONS])
        yield browser
        browser.close()
