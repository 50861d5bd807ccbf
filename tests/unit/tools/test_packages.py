"""What `make dist` makes of the README, and the bill of what a package is made of."""

from __future__ import annotations

import json
import re
import tomllib
from email.parser import Parser
from pathlib import Path

import pytest
from tools import dist_check, readme, sbom

ROOT = Path(__file__).parents[3]
URN = re.compile(
    r"urn:uuid:[0-9a-f]{8}-[0-9a-f]{4}-[1-5][0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}"
)


def test_the_bill_has_the_required_fields_of_cyclonedx() -> None:
    bill = sbom.build()

    assert (bill["bomFormat"], bill["specVersion"], bill["version"]) == ("CycloneDX", "1.6", 1)
    assert URN.fullmatch(bill["serialNumber"])
    components = [bill["metadata"]["component"], *bill["components"]]
    for one in components:
        assert one["type"] in ("application", "library")
        assert one["name"]
        assert one["purl"].startswith("pkg:")
        (licence,) = one["licenses"]
        assert licence.keys() <= {"expression"} or licence["license"]["name"]
    references = [one["bom-ref"] for one in components]
    assert len(set(references)) == len(references)
    assert {one["ref"] for one in bill["dependencies"]} == set(references)
    named = {name for one in bill["dependencies"] for name in one.get("dependsOn", ())}
    assert named == set(references[1:])


def test_the_bill_holds_what_the_project_needs_and_what_the_console_is_made_of() -> None:
    names = {one["name"] for one in sbom.build()["components"]}

    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    needed = {re.split(r"[<>=]", one)[0] for one in project["dependencies"]}
    assert needed <= names
    assert {"preact", "@codemirror/view", "h11"} <= names  # h11 is what wsproto needs
    assert not {"esbuild", "typescript", "pytest", "docgraph"} & names


def test_the_bill_is_the_same_each_time_and_knows_extras() -> None:
    assert json.dumps(sbom.build()) == json.dumps(sbom.build())
    assert "jsonschema-rs" in {one["name"] for one in sbom.build(("schema",))["components"]}


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("# docgraph\n\n[page](docs/x.md)", "cannot show"),
        ("# docgraph\n\n![picture](docs/x.png)", "cannot show"),
        ("something else", "README"),
    ],
)
def test_a_description_that_an_index_cannot_show_is_rejected(text: str, told: str) -> None:
    described = f"Description-Content-Type: text/markdown\n\n{text}"

    with pytest.raises(dist_check.Wrong, match=told):
        dist_check.check_metadata(Parser().parsestr(described))


def test_the_readme_without_its_links_into_the_repository_is_one_for_an_index() -> None:
    text = readme.render_for_index((ROOT / "README.md").read_text())

    described = f"Description-Content-Type: text/markdown\n\n{text}"
    dist_check.check_metadata(Parser().parsestr(described))


READY = "Project-URL: Homepage, https://docgraph.dev/\nAuthor-email: a <a@docgraph.dev>\n"


def test_a_release_needs_real_addresses() -> None:
    dist_check.check_release(Parser().parsestr(READY), "write to a@docgraph.dev")


@pytest.mark.parametrize(
    ("head", "policy", "told"),
    [
        ("", "", "Project-URL"),
        (READY.replace("docgraph.dev/", "docgraph.invalid/"), "", "Project-URL"),
        (READY.replace("a@docgraph.dev", "a@docgraph.invalid"), "", "Author-email"),
        (READY, "write to a@docgraph.invalid", "SECURITY"),
    ],
)
def test_a_release_with_placeholders_is_rejected(head: str, policy: str, told: str) -> None:
    with pytest.raises(dist_check.Wrong, match=told):
        dist_check.check_release(Parser().parsestr(head), policy)


def test_the_project_has_placeholders_where_a_release_needs_addresses() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]

    assert {"Homepage", "Documentation", "Source", "Changelog"} <= project["urls"].keys()
    assert project["authors"]
