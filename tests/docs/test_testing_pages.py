"""`docs/how-to/test-your-apps.md` and the last step of the tutorial: their tests pass."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

import docgraph.testing
from docgraph import pytest_plugin
from tests.docs.test_examples import ROOT, fenced
from tests.process.commands import run
from tests.process.test_testing import DESK, finish, run_pytest, start

PAGE, REFERENCE = "docs/how-to/test-your-apps.md", ROOT / "docs/reference/testing.md"
TUTORIAL = "docs/tutorial/first-app.md"


@pytest.fixture
def desk(tmp_path: Path) -> Path:
    """The example with the tests of the page in place of its own."""
    shutil.copytree(DESK, tmp_path, dirs_exist_ok=True, ignore=shutil.ignore_patterns("tests"))
    (tmp_path / "tests").mkdir()
    return tmp_path


@pytest.mark.second_tier("starts two databases")
def test_the_tests_of_the_page_pass(desk: Path) -> None:
    conftest, *tests, hidden, with_unittest = fenced(PAGE, "python")
    assert "Customer.email" in hidden  # about another app
    (desk / "tests/conftest.py").write_text(conftest)
    (desk / "tests/test_tickets.py").write_text("\n".join(tests))
    (desk / "unit_tickets.py").write_text(with_unittest)

    output = run_pytest(desk, "--docgraph-update")
    assert "4 passed" in output, output
    output = finish(start(desk, "unittest", "unit_tickets"))
    assert output.endswith("OK\n"), output


@pytest.mark.second_tier("starts a database")
@pytest.mark.usefixtures("preloaded")
def test_the_cases_of_the_page_pass(desk: Path) -> None:
    (desk / "tests/cases.yml").write_text(fenced(PAGE, "yaml")[0])

    done = run("apps", "test", ".", "--junit", "results.xml", cwd=desk)

    assert (done.returncode, done.stderr) == (0, "2 passed, 0 failed\n"), done.stdout


@pytest.mark.second_tier("starts a database")
@pytest.mark.usefixtures("preloaded")
def test_the_last_step_of_the_tutorial_works(tmp_path: Path) -> None:
    (definition,), (posts, cases) = fenced(TUTORIAL, "json"), fenced(TUTORIAL, "yaml")
    for name, text in {
        "": definition,
        "documents/posts.yml": posts,
        "tests/tags.yml": cases,
    }.items():
        path = tmp_path / "tags" / (name or "tags.json")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    done = run("apps", "test", "tags", cwd=tmp_path)

    assert (done.returncode, done.stderr) == (0, "1 passed, 0 failed\n"), done.stdout


def test_the_reference_has_every_name() -> None:
    named = set(re.findall(r"`(\w+)[`(]", REFERENCE.read_text()))

    assert {name for name in vars(pytest_plugin) if name.startswith("docgraph_")} <= named
    assert set(docgraph.testing.__all__) - {"AppAnswer", "RunningApp"} <= named
