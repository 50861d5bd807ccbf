"""`tools/site.py`: what of the repository becomes the site (MkDocs itself runs in `make docs`)."""

from __future__ import annotations

from pathlib import Path

from tools.site import INDEX, ROOT, build_navigation, find_pages, lay_out


def test_every_page_is_in_the_navigation_once() -> None:
    navigation = build_navigation((ROOT / INDEX).read_text())

    entries = [entry for part in navigation for entry in flatten(part)]
    assert sorted(entries) == [page.relative_to(ROOT).as_posix() for page in find_pages()]


def flatten(part: dict[str, object]) -> list[str]:
    (inside,) = part.values()
    if isinstance(inside, str):
        return [inside]
    assert isinstance(inside, list)
    return [path for entry in inside for path in flatten(entry)]


def test_pages_are_laid_out_with_the_files_that_they_link_to(tmp_path: Path) -> None:
    root, target = tmp_path / "root", tmp_path / "pages"
    (root / "docs").mkdir(parents=True)
    (root / "README.md").write_text("[a page](docs/page.md)")
    (root / "docs/page.md").write_text("[data](data.json#here) [elsewhere](https://example.org)")
    (root / "docs/data.json").write_text("{}")
    (root / "docs/secret.json").write_text("{}")
    (target / "docs").mkdir(parents=True)
    (target / "docs/old.md").write_text("from the time before")

    lay_out(target, root)

    files = {path.relative_to(target).as_posix() for path in target.rglob("*") if path.is_file()}
    assert files == {"README.md", "docs/page.md", "docs/data.json"}
