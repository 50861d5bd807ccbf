"""Build the site of the documentation in `build/docs` (`make docs`).

Pages link to each other, and to files of examples, by paths of the repository. So they are copied
to `build/pages` with the same paths, together with the files that they link to. The navigation is
the list in `docs/README.md`. Zensical checks every link and anchor, and `--strict` makes each
warning an error. Its search finds sections with all words only; `tools/site_search.js` replaces it.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from os.path import normpath
from pathlib import Path
from typing import Any, Final

import yaml

sys.path.insert(0, str(Path(__file__).parent.parent))

from tools.release import read_release

__all__ = ["build_navigation", "find_pages", "lay_out", "render_site"]

ROOT: Final = Path(__file__).parents[1]
INDEX: Final = "docs/README.md"
_LINK: Final = re.compile(r"\[([^\]]+)\]\((?!https?:|#)([^)#]+)")
_HEADING: Final = re.compile(r"## (.+)")
# Pages of the repository that the list of pages does not have.
_ABOUT: Final = {
    "Changelog": "CHANGELOG.md",
    "Architecture": "ARCHITECTURE.md",
    "Contributing": "CONTRIBUTING.md",
    "Security": "SECURITY.md",
    "Tests": "tests/README.md",
    "Benchmarks": "bench/README.md",
    "Files for deployment": "deploy/README.md",
}


def find_pages(root: Path = ROOT) -> list[Path]:
    """Find the pages of the repository."""
    patterns = ("*.md", "docs/**/*.md", "examples/**/*.md")
    about = [root / name for name in _ABOUT.values() if (root / name).is_file()]
    return sorted({*about, *(page for one in patterns for page in root.glob(one))})


def lay_out(target: Path, root: Path = ROOT) -> None:
    """Copy the pages, and the files that they link to, keeping their paths."""
    if target.exists():
        shutil.rmtree(target)
    for page in find_pages(root):
        for path in (page, *_find_linked(page)):
            copy = target / path.relative_to(root)
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, copy)


def _find_linked(page: Path) -> Iterator[Path]:
    for _, link in _LINK.findall(page.read_text()):
        path = Path(normpath(page.parent / link))  # a link of the file system keeps its name
        if path.is_file():
            yield path


def build_navigation(index: str) -> list[dict[str, Any]]:
    """The list of pages as `nav`: a section for each heading, an entry for each link."""
    sections: dict[str, list[dict[str, str]]] = {}
    for line in index.splitlines():
        if heading := _HEADING.match(line):
            entries = sections.setdefault(heading[1], [])
        elif line.startswith(("* ", "  ")):  # an item, and its further lines
            entries += [
                {title.replace("`", ""): _from_root(link)} for title, link in _LINK.findall(line)
            ]
    about = [{title: name} for title, name in _ABOUT.items()]
    return [
        {"docgraph": "README.md"},
        {"All pages": INDEX},
        *({title: entries} for title, entries in sections.items()),
        {"About": about},
    ]


def _from_root(link: str) -> str:
    path = (ROOT / INDEX).parent / link
    return path.resolve().relative_to(ROOT).as_posix()


def render_site(build: Path) -> int:
    """Build the site of the copied pages; return the exit code of Zensical."""
    settings = {
        "INHERIT": str(ROOT / "mkdocs.yml"),
        "docs_dir": "pages",
        "site_dir": "docs",
        "nav": build_navigation((ROOT / INDEX).read_text()),
    }
    if documentation := read_release().urls.get("Documentation"):
        settings["site_url"] = documentation
    configuration = build / "mkdocs.yml"
    configuration.write_text(yaml.safe_dump(settings, sort_keys=False))
    zensical = Path(sys.executable).with_name("zensical")
    command = [str(zensical), "build", "--clean", "--strict", "-f", str(configuration)]
    code = subprocess.run(command, check=False).returncode
    if code == 0:
        _extend_search(build / "docs")
    return code


def _extend_search(site: Path) -> None:
    """Append our part to the worker of the search."""
    (worker,) = site.glob("assets/javascripts/workers/search.*.js")
    with worker.open("a") as script:
        script.write(f"\n{(ROOT / 'tools/site_search.js').read_text()}")


def main() -> int:
    """Copy the pages, write the navigation, then build and check the site."""
    build = ROOT / "build"
    lay_out(build / "pages")
    code = render_site(build)
    if code == 0:
        print("built build/docs; to see it: python3 -m http.server -d build/docs")
    return code


if __name__ == "__main__":
    sys.exit(main())
