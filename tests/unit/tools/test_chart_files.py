"""The Helm chart, as far as it can be judged without helm."""

from __future__ import annotations

import json
import re
from typing import Any

import jsonschema_rs
import pytest
import yaml
from tools.chart import CHART, ROOT
from tools.containerfile import CONTAINERFILE, read_stages

import docgraph
from docgraph.config import ConfigSources
from docgraph.config.options import find_option, walk_options
from docgraph.server.prepare import find_plugins, load_tree, sections_of

VALUES: dict[str, Any] = yaml.safe_load((CHART / "values.yaml").read_text())
SCHEMA: dict[str, Any] = json.loads((CHART / "values.schema.json").read_text())
CHOSEN = sorted((CHART / "ci").glob("*.yaml"))
DEFAULTS = re.compile(r'"section" "([\w-]+)" "option" "([\w-]+)" "default" "([^"]*)"')


def merge(base: Any, other: Any) -> Any:
    """Values as helm joins them: null takes a default away."""
    if not isinstance(base, dict) or not isinstance(other, dict):
        return other
    joined = {**base, **{name: merge(base.get(name), one) for name, one in other.items()}}
    return {name: one for name, one in joined.items() if other.get(name, one) is not None}


def find_mistakes(values: dict[str, Any]) -> list[str]:
    validator = jsonschema_rs.Draft7Validator(SCHEMA)
    return [error.message for error in validator.iter_errors(merge(VALUES, values))]


def resolve(schema: dict[str, Any]) -> dict[str, Any]:
    found = schema.get("$ref")
    own: dict[str, Any] = SCHEMA["definitions"][found.rsplit("/")[-1]] if found else schema
    return own


def list_unequal(schema: dict[str, Any], values: dict[str, Any], path: str = "") -> list[str]:
    """Names that only the schema or only the values have."""
    known = resolve(schema).get("properties")
    if known is None:
        return []
    unequal = [f"{path}/{name}" for name in known.keys() ^ values.keys()]
    for name in known.keys() & values.keys():
        if isinstance(values[name], dict):
            unequal += list_unequal(known[name], values[name], f"{path}/{name}")
    return unequal


def test_the_schema_knows_every_value_and_no_other() -> None:
    jsonschema_rs.meta.validate(SCHEMA)
    optional = {"initialDelaySeconds", "successThreshold", "requests", "limits", "claims"}
    optional |= {"scaleUp", "scaleDown", "global", "enabled"}

    unequal = list_unequal(SCHEMA, VALUES)

    assert [path for path in unequal if path.rsplit("/", 1)[1] not in optional] == []


@pytest.mark.parametrize("path", CHOSEN, ids=lambda path: path.stem)
def test_the_schema_takes_the_values_that_the_chart_is_tried_with(path: Any) -> None:
    assert find_mistakes(yaml.safe_load(path.read_text())) == []


def test_the_schema_takes_the_values_that_the_documentation_shows() -> None:
    page = (ROOT / "docs/how-to/kubernetes.md").read_text()
    shown = re.findall(r"```yaml\n(.*?)```", page, re.DOTALL)
    assert shown
    assert [find_mistakes(yaml.safe_load(text)) for text in shown] == [[] for _ in shown]


@pytest.mark.parametrize(
    ("values", "named"),
    [
        ({"replcias": 3}, "replcias"),
        ({"image": {"tags": "1"}}, "tags"),
        ({"image": {"tag": 1.10}}, "1.1"),
        ({"replicas": "3"}, '"3"'),
        ({"service": None}, "service"),
        ({"config": {"/mclient/connection-string": {}}}, "/mclient/connection-string"),
        ({"connectionString": {"secretName": "Not_A_Name"}}, "Not_A_Name"),
        ({"connectionString": {"value": "mongodb://"}}, "value"),
        ({"podLabels": {"version": 1}}, "1"),
        ({"commonLabels": {"team": "data and more"}}, "data and more"),
        ({"extraEnv": [{"name": "LEVEL", "value": 1}]}, "1"),
        ({"probes": {"liveness": {"successThreshold": 2}}}, "2"),
        ({"containerPort": 80}, "80"),
        ({"podDisruptionBudget": {"minAvailable": "half"}}, "half"),
        (
            {"secretOptions": [{"option": "/a/b -> 'x'; /c", "secretName": "a", "secretKey": "b"}]},
            "/c",
        ),
    ],
)
def test_a_value_that_is_not_known_or_not_of_its_kind_is_refused_by_name(
    values: dict[str, Any], named: str
) -> None:
    (mistake, *_) = find_mistakes(values)
    assert named in mistake


def test_every_value_is_explained() -> None:
    above = ""
    unexplained = []
    for line in (CHART / "values.yaml").read_text().splitlines():
        if re.match(r"\w+:", line) and not above.lstrip().startswith("#"):
            unexplained.append(line)
        above = line
    assert unexplained == []


def test_the_chart_takes_docgraph_to_have_the_defaults_that_it_has() -> None:
    sections = sections_of(find_plugins(load_tree(ConfigSources(environ={}))))
    used = {
        (section, option, default)
        for path in (CHART / "templates").glob("*")
        if path.is_file()
        for section, option, default in DEFAULTS.findall(path.read_text())
    }

    assert ("ping", "uri", "/ping") in used
    for section, option, default in used:
        own = find_option(sections, (section, option))
        assert own is not None, (section, option)
        assert json.dumps(own.default).strip('"[]') == default, (section, option)


def test_every_secret_of_docgraph_is_kept_out_of_the_config_map() -> None:
    sections = sections_of(find_plugins(load_tree(ConfigSources(environ={}))))
    checks = (CHART / "templates/_checks.tpl").read_text()
    secrets = [
        (section, option)
        for section, struct in sections.items()
        for _, option in walk_options(struct, section)
        if option.extra.get("secret")
    ]

    assert len(secrets) > 3
    for section, option in secrets:
        named = f'"{section}" "{option.name}"', f"config.{section}.{option.name} is a secret"
        assert any(words in checks for words in named), (section, option.name)


def test_the_chart_and_the_image_agree() -> None:
    stage = read_stages(CONTAINERFILE.read_text())["docgraph"]
    user, group = stage.last("USER").text.split(":")
    security = VALUES["podSecurityContext"]

    assert (str(security["runAsUser"]), str(security["runAsGroup"])) == (user, group)
    assert str(VALUES["containerPort"]) == stage.last("EXPOSE").text
    assert stage.last("ENTRYPOINT").words == ["docgraph"]
    assert stage.last("STOPSIGNAL").text == "SIGTERM"


def test_the_chart_is_of_this_version() -> None:
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
    assert chart["appVersion"] == docgraph.__version__


def test_the_alerts_of_the_chart_are_those_of_prometheus() -> None:
    ours = CHART / "files/docgraph.rules.yml"
    theirs = ROOT / "deploy/prometheus/docgraph.rules.yml"
    assert ours.read_text() == theirs.read_text(), f"cp {theirs} {ours}"
