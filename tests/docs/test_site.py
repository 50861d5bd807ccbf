"""The site of the documentation builds without warnings, and its search finds the pages."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest
import yaml
from tools.site import lay_out, render_site

from tests.programs import HANGS_SECONDS, require

QUESTIONS: dict[str, str] = yaml.safe_load(Path(__file__).with_name("questions.yml").read_text())
SHOWN = 3

pytestmark = pytest.mark.second_tier("builds the site, which no source is part of")


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The built site."""
    build = tmp_path_factory.mktemp("site")
    lay_out(build / "pages")
    assert render_site(build) == 0
    return build / "docs"


@pytest.fixture(scope="module")
def results(built: Path) -> dict[str, list[str]]:
    """The pages that the search of the site lists for each question, best first."""
    require("node")
    (worker,) = built.glob("assets/javascripts/workers/search.*.js")
    script = Path(__file__).with_name("search.mjs")
    done = subprocess.run(
        ["node", script, worker, built / "search.json"],
        input=json.dumps(list(QUESTIONS)),
        capture_output=True,
        text=True,
        check=True,
        timeout=HANGS_SECONDS,
    )
    found: dict[str, list[str]] = json.loads(done.stdout)
    return {
        question: list(dict.fromkeys(one.partition("#")[0] for one in locations))
        for question, locations in found.items()
    }


def test_every_page_is_a_page_of_the_site(built: Path) -> None:
    pages = {path.relative_to(built.parent / "pages") for path in built.parent.rglob("*.md")}
    rendered = {path.relative_to(built).as_posix() for path in built.rglob("*.html")}

    assert {page.as_posix().replace("README.md", "index.md") for page in pages} <= {
        name.removesuffix("html") + "md" for name in rendered
    }


def test_links_that_lead_nowhere_end_the_build(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    lay_out(tmp_path / "pages")
    with (tmp_path / "pages/README.md").open("a") as page:
        page.write("\n[a page](nowhere.md) [a heading](docs/README.md#nowhere) [here](#nowhere)\n")

    assert render_site(tmp_path) != 0

    assert "3 issues found" in "".join(capfd.readouterr())


def test_search_lists_the_page_of_a_question_among_the_first(
    results: dict[str, list[str]],
) -> None:
    missed = {
        question: results[question][:SHOWN]
        for question, page in QUESTIONS.items()
        if page.replace(".md", ".html").replace("README.html", "index.html")
        not in results[question][:SHOWN]
    }

    assert not missed
