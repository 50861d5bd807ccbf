"""What `make dist` makes of the README, and the bill of what a package is made of."""

from __future__ import annotations

import json
import re
import tomllib
from email.parser import Parser
from pathlib import Path

import pytest
from tools import dist, dist_check, readme, release, sbom

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


FILLED = """
maintainer = "a"
email = "a@docgraph.dev"
security-email = "b@docgraph.dev"
[urls]
Homepage = "https://docgraph.dev/"
"""


def test_a_release_with_all_addresses_is_accepted(tmp_path: Path) -> None:
    (tmp_path / "release.toml").write_text(FILLED)
    found = release.read_release(tmp_path / "release.toml")

    dist_check.check_release(found)
    assert found.author == {"name": "a", "email": "a@docgraph.dev"}
    assert found.urls == {"Homepage": "https://docgraph.dev/"}


@pytest.mark.parametrize(
    ("filled", "named"),
    [
        ("a@docgraph.dev", "no email:"),
        ("b@docgraph.dev", "no security-email:"),
        ("https://docgraph.dev/", "no urls.Homepage:"),
    ],
)
def test_a_release_without_an_address_is_rejected(tmp_path: Path, filled: str, named: str) -> None:
    (tmp_path / "release.toml").write_text(FILLED.replace(filled, ""))

    with pytest.raises(dist_check.Wrong, match=named):
        dist_check.check_release(release.read_release(tmp_path / "release.toml"))


def test_addresses_are_in_one_file() -> None:
    asked = release.read_release()
    assert {"Homepage", "Documentation", "Source", "Changelog"} <= {
        *asked.urls,
        *(name.removeprefix("urls.") for name in asked.missing),
    }
    for place in (".", "workbench", "migrate"):
        project = tomllib.loads((ROOT / place / "pyproject.toml").read_text())["project"]
        assert not {"authors", "urls"} & project.keys()
        assert {"authors", "urls"} <= set(project["dynamic"])


def test_sums_are_those_of_sha256sum_and_have_to_fit(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "a.whl").write_bytes(b"abc")
    dist.write_sums(tmp_path, None)
    dist.write_sums(tmp_path, None)  # of the packages, not of the list

    digest = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
    assert (tmp_path / "SHA256SUMS").read_text() == f"{digest}  a.whl\n"
    dist_check.check_sums(tmp_path)
    assert "not signed: make dist SIGN_KEY=" in capsys.readouterr().err

    (tmp_path / "b.whl").write_bytes(b"")
    with pytest.raises(dist_check.Wrong, match=r"does not fit b\.whl"):
        dist_check.check_sums(tmp_path)
    (tmp_path / "b.whl").unlink()
    (tmp_path / "a.whl").write_bytes(b"abd")
    with pytest.raises(dist_check.Wrong, match=r"does not fit a\.whl"):
        dist_check.check_sums(tmp_path)


def test_a_native_wheel_for_one_python_is_rejected(tmp_path: Path) -> None:
    (tmp_path / "docgraph_native-0.1.0-cp311-abi3-manylinux_2_34_x86_64.whl").touch()
    dist_check.check_native(tmp_path)

    (tmp_path / "docgraph_native-0.1.0-cp313-cp313-linux_x86_64.whl").touch()
    with pytest.raises(dist_check.Wrong, match="not for abi3"):
        dist_check.check_native(tmp_path)
