"""What a package of docgraph needs and contains, as a CycloneDX document on stdout.

    python tools/sbom.py [EXTRA ...] > docgraph.cdx.json

Versions are those of this environment, which `make dist` installs by constraints.txt; the parts of
the console, which the package contains, are those of its lock file. The same input gives the same
bytes.
"""

from __future__ import annotations

import json
import sys
import uuid
from collections.abc import Iterator
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path
from typing import Any

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parent.parent
LOCK = ROOT / "console/package-lock.json"
SPECIFICATION = "1.6"
BUILDERS = ("esbuild",)  # what makes the console, and is not in it
_CLASSIFIER = "License :: OSI Approved :: "


Needed = dict[str, tuple[Distribution, set[str]]]


def find_needed(name: str, extras: tuple[str, ...] = ()) -> Needed:
    """Every distribution that is needed, by its name, with the names of what it needs itself."""
    found: Needed = {}
    waiting = [(name, extras)]
    while waiting:
        one, chosen = waiting.pop()
        known = distribution(one)
        _, needs = found.setdefault(canonicalize_name(one), (known, set()))
        for requirement in _list_requirements(known, chosen):
            needed = canonicalize_name(requirement.name)
            if needed not in needs:
                needs.add(needed)
                waiting.append((needed, tuple(requirement.extras)))
    return found


def _list_requirements(known: Distribution, extras: tuple[str, ...]) -> Iterator[Requirement]:
    for text in known.requires or ():
        requirement = Requirement(text)
        marker = requirement.marker
        if marker is None or any(marker.evaluate({"extra": one}) for one in extras or ("",)):
            yield requirement


def describe(known: Distribution, kind: str = "library") -> dict[str, Any]:
    """A distribution as a component."""
    name, version = canonicalize_name(known.metadata["Name"]), known.version
    reference = f"pkg:pypi/{name}@{version}"
    component: dict[str, Any] = {
        "type": kind,
        "bom-ref": reference,
        "name": name,
        "version": version,
        "purl": reference,
    }
    if licence := _find_licence(known):
        component["licenses"] = [licence]
    return component


def _find_licence(known: Distribution) -> dict[str, Any] | None:
    """An expression where there is one, else the name that the package gives its licence."""
    if expressions := known.metadata.get_all("License-Expression"):
        return {"expression": expressions[0]}
    named = [
        text.removeprefix(_CLASSIFIER)
        for text in known.metadata.get_all("Classifier") or ()
        if text.startswith(_CLASSIFIER)
    ]
    text = "".join(known.metadata.get_all("License") or ()).splitlines()
    names = named[:1] or text[:1]
    return {"license": {"name": names[0]}} if names and names[0].strip() else None


def list_console_parts(lock: Path = LOCK) -> Iterator[dict[str, Any]]:
    """What npm installs for the console, besides what only builds and checks it."""
    for path, entry in sorted(json.loads(lock.read_text())["packages"].items()):
        name = path.rpartition("node_modules/")[2]
        is_inside = name and not entry.get("dev") and not entry.get("optional")
        if is_inside and name not in BUILDERS:
            reference = f"pkg:npm/{name.replace('@', '%40')}@{entry['version']}"
            part = {
                "type": "library",
                "bom-ref": reference,
                "name": name,
                "version": entry["version"],
                "purl": reference,
            }
            if "license" in entry:
                part["licenses"] = [{"expression": entry["license"]}]
            yield part


def build(extras: tuple[str, ...] = ()) -> dict[str, Any]:
    """The document."""
    needed = find_needed("docgraph", extras)
    parts = {part["bom-ref"]: part for part in list_console_parts()}
    components = {name: describe(known) for name, (known, _) in sorted(needed.items())}
    main = describe(needed["docgraph"][0], "application")
    dependencies = [
        {
            "ref": component["bom-ref"],
            "dependsOn": sorted(
                [components[one]["bom-ref"] for one in needed[name][1]]
                + (list(parts) if name == "docgraph" else [])
            ),
        }
        for name, component in components.items()
    ]
    components.pop("docgraph")
    content = {
        "metadata": {"component": main},
        "components": [*components.values(), *parts.values()],
        "dependencies": [*dependencies, *({"ref": one} for one in parts)],
    }
    identity = uuid.uuid5(uuid.NAMESPACE_URL, json.dumps(content, sort_keys=True))
    return {
        "bomFormat": "CycloneDX",
        "specVersion": SPECIFICATION,
        "serialNumber": f"urn:uuid:{identity}",
        "version": 1,
        **content,
    }


def main(extras: list[str]) -> int:
    """Print the document."""
    try:
        print(json.dumps(build(tuple(extras)), indent=2))
    except PackageNotFoundError as error:
        print(f"{error.name} is needed and not installed: make setup", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
