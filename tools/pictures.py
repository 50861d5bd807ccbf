"""Take the pictures of the console on its pages, light and dark (`make pictures`).

    python -m tools.pictures

A demo is started on an empty directory, so the pictures show the same data each time. It needs what
`make drill-browser` installs: Playwright, a Chromium, the console.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal

from tools.demo import serve_demo

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

ROOT: Final = Path(__file__).parents[1]
IMAGES: Final = ROOT / "docs/images"
LARGEST: Final = 100_000  # bytes of a picture
SCHEMES: Final[tuple[Literal["light", "dark"], ...]] = ("light", "dark")
SIZE: Final = {"width": 960, "height": 540}
BROWSERS: Final = ("chromium-headless-shell", "chromium", "google-chrome-stable", "google-chrome")
QUERY: Final = "{\n  posts(limit: 3) {\n    title\n    published\n    author { name }\n  }\n}"


@contextmanager
def browsing() -> Iterator[Browser]:
    """Start a browser."""
    from playwright.sync_api import sync_playwright

    path = next(filter(None, map(shutil.which, BROWSERS)), None)
    if path is None:
        raise SystemExit("needs a browser: apt-get install chromium")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        yield browser
        browser.close()


def log_in(page: Page, address: str, password: str) -> None:
    """Log the administrator in."""
    page.goto(f"{address}/console")
    page.get_by_role("button", name="Log in").click()
    dialog = page.get_by_role("dialog", name="Log in")
    dialog.get_by_label("Name").fill("admin")
    dialog.get_by_label("Password").fill(password)
    dialog.get_by_role("button", name="Log in").click()
    page.get_by_role("button", name="Log out").wait_for()


def show_query(page: Page) -> None:
    """Run a query and show its answer."""
    page.get_by_role("textbox", name="Query").fill(QUERY)
    page.get_by_role("button", name="Run", exact=True).click()
    page.get_by_role("list", name="Answer").wait_for()


def show_nothing(page: Page) -> None:
    """Show a page as it opens, when it has loaded."""
    page.wait_for_load_state("networkidle")


PAGES: Final = {
    "ask": ("/ask/blog", show_query),
    "data": ("/data/posts", show_nothing),
    "apps": ("/apps/blog", show_nothing),
    "access": ("/access/rules", show_nothing),
}


def main() -> int:
    """Take each picture; the exit code."""
    code = 0
    with (
        tempfile.TemporaryDirectory() as place,
        serve_demo(Path(place)) as (address, password),
        browsing() as browser,
    ):
        for scheme in SCHEMES:
            with browser.new_context(viewport=SIZE, color_scheme=scheme) as context:  # type: ignore[arg-type]
                page = context.new_page()
                log_in(page, address, password)
                for name, (path, show) in PAGES.items():
                    page.goto(f"{address}/console{path}")
                    show(page)
                    target = IMAGES / f"console-{name}-{scheme}.png"
                    page.screenshot(path=target, animations="disabled", caret="hide")
                    size = target.stat().st_size
                    print(f"{target.relative_to(ROOT)}  {size / 1000:.0f} kB")
                    code |= size > LARGEST
    return code


if __name__ == "__main__":
    sys.exit(main())
