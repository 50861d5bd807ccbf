"""What the Helm chart makes of values: the objects, the notes, and the refusals."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml
from tools.chart import CHART, ROOT
from tools.helm import run_helm

import docgraph
from tests.process.charts import SECRETS, template


def reject(helm: str, *options: str) -> str:
    done: subprocess.CompletedProcess[str] = run_helm(
        helm, "template", "docgraph", str(CHART), *options
    )
    assert done.returncode != 0
    return done.stderr


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ((), "connectionString.secretName is missing"),
        ((*SECRETS, "--set", "replcias=3"), "replcias"),
        ((*SECRETS, "--set", "config.mclient.connection-string=mongodb://u:p@h/"), "ConfigMap"),
        ((*SECRETS, "--set", "config.jwtTokenManager.key=secret"), "tokenKey.secretName"),
        ((*SECRETS, "--set", "config.jwtTokenManager.enabled=true"), "tokenKey.secretName"),
        ((*SECRETS, "--set", "config.jwtAuthenticationMechanism.key=hmac"), "secretOptions"),
        ((*SECRETS, "--set", "config.any.url=http://user:word@proxy:80/"), "before proxy:80"),
        ((*SECRETS, "--set", "config.http-listener.port=9000"), "containerPort"),
        ((*SECRETS, "--set", "config.core.probe-listener.port=9000"), "probePort"),
        ((*SECRETS, "--set", "probePort=8080"), "probePort is the same as containerPort"),
        ((*SECRETS, "--set", "config.database-probe.secured=true"), "config.database-probe"),
        ((*SECRETS, "--set", "extraEnv[0].name=DOCGRAPH_OVERRIDES"), "DOCGRAPH_OVERRIDES"),
        ((*SECRETS, "--set", "extraVolumes[0].name=config"), "extraVolumes has config"),
        (
            (*SECRETS, "--set", "extraVolumeMounts[0].name=x,extraVolumeMounts[0].mountPath=/tmp"),
            "extraVolumeMounts has /tmp",
        ),
        ((*SECRETS, "--set", "config.graphql.introspection=false"), 'write "off"'),
        ((*SECRETS, "--set", "strategy.rollingUpdate.maxSurge=0"), "cannot both be 0"),
        ((*SECRETS, "--set", "strategy.rollingUpdate.maxSurge=0%"), "cannot both be 0"),
        ((*SECRETS, "--set", "image.repository=registry:5000/docgraph:1"), "image.tag"),
        ((*SECRETS, "--set", "extraPodSpec.tolerations[0].key=a"), "use the value tolerations"),
        ((*SECRETS, "--set", "extraPodSpec.volumes[0].name=a"), "use extraVolumes"),
        ((*SECRETS, "--set", "service.extraSpec.type=NodePort"), "use service.type"),
        ((*SECRETS, "--set", "ingress.enabled=true"), "ingress.hosts"),
        (
            (*SECRETS, "--set", "autoscaling.enabled=true,resources=null"),
            "resources.requests.cpu",
        ),
        ((*SECRETS, "--set", "autoscaling.enabled=true,autoscaling.minReplicas=11"), "maxReplicas"),
    ],
)
def test_values_that_cannot_work_are_refused_with_what_to_do(
    helm: str, options: tuple[str, ...], said: str
) -> None:
    assert said in reject(helm, *options)


@pytest.mark.parametrize(
    ("options", "memory"),
    [
        ((), ("192Mi", "1024Mi")),
        (("--set", "config.core.workers=4"), ("480Mi", "2560Mi")),
        (("--set", "resources.limits.memory=3Gi"), ("192Mi", "3Gi")),
    ],
)
def test_memory_fits_the_number_of_workers(
    helm: str, options: tuple[str, ...], memory: tuple[str, str]
) -> None:
    pod = template(helm, *SECRETS, *options)["Deployment"]["spec"]["template"]["spec"]
    resources = pod["containers"][0]["resources"]
    assert (resources["requests"]["memory"], resources["limits"]["memory"]) == memory
    assert resources["requests"]["cpu"] == "250m"


def test_resources_that_are_turned_off_are_none(helm: str) -> None:
    pod = template(helm, *SECRETS, "--set", "resources=null")["Deployment"]["spec"]["template"]
    assert "resources" not in pod["spec"]["containers"][0]


def test_no_pod_but_instances_gets_requests_and_every_selector_finds_them(helm: str) -> None:
    objects = template(helm, "-f", str(CHART / "ci/everything.yaml"))
    pod = objects["Deployment"]["spec"]["template"]["metadata"]["labels"]
    test = objects["Pod"]["metadata"]["labels"]
    selectors = [
        objects["Service"]["spec"]["selector"],
        objects["Deployment"]["spec"]["selector"]["matchLabels"],
        objects["PodDisruptionBudget"]["spec"]["selector"]["matchLabels"],
        objects["NetworkPolicy"]["spec"]["podSelector"]["matchLabels"],
    ]
    for selector in selectors:
        assert selector.items() <= pod.items()
        assert not selector.items() <= test.items()
    (rule,) = objects["NetworkPolicy"]["spec"]["ingress"]
    assert rule["from"][-1]["podSelector"]["matchLabels"].items() <= test.items()
    monitored = objects["ServiceMonitor"]["spec"]["selector"]["matchLabels"]
    assert monitored.items() <= objects["Service"]["metadata"]["labels"].items()


@pytest.mark.parametrize(
    "name", ["docgraph", "my.release", "1st", "a" * 53, "a" * 41 + ".b-docgraph"]
)
def test_names_are_such_as_a_service_may_have(helm: str, name: str) -> None:
    objects = template(helm, *SECRETS, name=name)
    for one in objects.values():
        assert re.fullmatch(r"[a-z]([-a-z0-9]{0,61}[a-z0-9])?", one["metadata"]["name"])


def test_names_that_read_as_numbers_or_as_true_stay_texts(helm: str) -> None:
    overrides = "nameOverride=on,fullnameOverride=on,serviceAccount.name=123"
    odd = ["--set-string", overrides, "--namespace", "1e3", "-f", str(CHART / "ci/everything.yaml")]
    objects = template(helm, *odd)
    for kind, one in objects.items():
        meta = one["metadata"]
        assert (kind, type(meta["name"]), meta["namespace"]) == (kind, str, "1e3")
        assert meta["labels"]["app.kubernetes.io/name"] == "on"
    pod = objects["Deployment"]["spec"]["template"]
    assert pod["metadata"]["labels"]["app.kubernetes.io/name"] == "on"
    assert pod["spec"]["serviceAccountName"] == "123"


def test_what_cannot_be_changed_later_is_the_same_whatever_else_the_values_say(helm: str) -> None:
    def read_selector(*options: str) -> Any:
        return template(helm, *SECRETS, *options)["Deployment"]["spec"]["selector"]

    most = ["-f", str(CHART / "ci/everything.yaml"), "--set", "nameOverride="]
    assert read_selector() == read_selector(*most)


def test_the_pod_of_helm_test_goes_where_instances_go_and_is_pulled_as_they_are(helm: str) -> None:
    objects = template(helm, "-f", str(CHART / "ci/everything.yaml"))
    instance = objects["Deployment"]["spec"]["template"]["spec"]
    for field in ("serviceAccountName", "nodeSelector", "tolerations", "imagePullSecrets"):
        assert objects["Pod"]["spec"][field] == instance[field]
    node_affinity = {"nodeAffinity": instance["affinity"]["nodeAffinity"]}
    assert objects["Pod"]["spec"]["affinity"] == node_affinity
    assert objects["Pod"]["spec"]["automountServiceAccountToken"] is False


def test_labels_of_metrics_are_not_hidden_by_those_that_the_operator_gives_to_targets(
    helm: str,
) -> None:
    objects = template(helm, "-f", str(CHART / "ci/everything.yaml"))
    (endpoint,) = objects["ServiceMonitor"]["spec"]["endpoints"]
    dropped = {one["regex"] for one in endpoint["relabelings"] if one.get("action") == "labeldrop"}
    given = {"namespace", "service", "pod", "container", "endpoint", "node", "job", "instance"}
    page = (ROOT / "docs/reference/metrics.md").read_text()
    rows = re.findall(r"^\| `docgraph_\w+` \| \w+ \| (.*?) \|", page, re.MULTILINE)
    own = {label for row in rows for label in re.findall(r"`(\w+)`", row)}
    assert "service" in own
    assert own & (given - dropped) == set()


def test_the_label_of_the_version_says_what_runs(helm: str) -> None:
    for options, version in (((), docgraph.__version__), (("--set", "image.tag=9.1"), "9.1")):
        objects = template(helm, *SECRETS, *options)
        pod = objects["Deployment"]["spec"]["template"]["metadata"]
        assert pod["labels"]["app.kubernetes.io/version"] == version


def read_notes(helm: str, directory: Path, *options: str) -> str:
    """What helm says after an installation, which it says only to those who have a cluster."""
    if not directory.exists():
        shutil.copytree(CHART, directory)
        shutil.copy(CHART / "templates/NOTES.txt", directory / "files/notes")
        template = 'kind: Notes\ntext: {{ tpl (.Files.Get "files/notes") . | quote }}\n'
        (directory / "templates/notes.yaml").write_text(template)
    shown = ["--show-only", "templates/notes.yaml"]
    done = run_helm(helm, "template", "docgraph", str(directory), *shown, *SECRETS, *options)
    assert done.returncode == 0, done.stderr
    return str(yaml.safe_load(done.stdout)["text"])


@pytest.mark.parametrize(
    ("values", "warned"),
    [
        ("replicas=1", False),
        ("replicas=1,podDisruptionBudget.minAvailable=50%", True),
        ("podDisruptionBudget.minAvailable=50%", False),
        ("podDisruptionBudget.minAvailable=2", True),
        ("podDisruptionBudget.minAvailable=2,replicas=3", False),
        ("podDisruptionBudget.minAvailable=2,replicas=3,autoscaling.enabled=true", True),
        ("podDisruptionBudget.maxUnavailable=0", True),
    ],
)
def test_a_budget_that_keeps_nodes_from_being_emptied_is_warned_of(
    helm: str, tmp_path: Path, values: str, warned: bool
) -> None:
    notes = read_notes(helm, tmp_path / "chart", "--set", values)
    assert ("kubectl drain" in notes) == warned


def test_a_pod_has_the_time_to_answer_what_it_has_accepted(helm: str) -> None:
    longer = "config.connection-options.shutdown-timeout-ms=90500"
    delayed = "config.connection-options.shutdown-delay-ms=3000"
    all_set = ("--set", longer, "--set", delayed, "--set", "preStopSeconds=20")
    for options, seconds in (((), 25), (all_set, 124)):
        pod = template(helm, *SECRETS, *options)["Deployment"]["spec"]["template"]["spec"]
        assert pod["terminationGracePeriodSeconds"] == seconds


def test_a_changed_configuration_makes_new_pods_and_a_changed_number_of_them_does_not(
    helm: str,
) -> None:
    def render_pod(*options: str) -> Any:
        return template(helm, *SECRETS, *options)["Deployment"]["spec"]["template"]

    assert render_pod() == render_pod("--set", "replicas=5")
    assert render_pod() != render_pod("--set", "config.core.workers=2")


def test_the_autoscaler_alone_decides_how_many_there_are(helm: str) -> None:
    objects = template(helm, *SECRETS, "--set", "autoscaling.enabled=true")
    assert "replicas" not in objects["Deployment"]["spec"]
    target = objects["HorizontalPodAutoscaler"]["spec"]["scaleTargetRef"]
    assert target["name"] == objects["Deployment"]["metadata"]["name"]
