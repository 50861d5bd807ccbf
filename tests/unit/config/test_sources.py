"""Built-in defaults < file < overrides file < DOCGRAPH_OVERRIDES < --set; files of sections."""

from __future__ import annotations

from pathlib import Path

import pytest

from docgraph.config import ConfigSources, Decoded, decode, load
from docgraph.config.sources import CONFIGURATION, locating
from docgraph.exchange import ConfigError, Problem
from docgraph.graphql.sections import Graphql
from docgraph.rest.sections import Mongo
from docgraph.runtime.sections import Core
from docgraph.server.prepare import SECTIONS
from docgraph.store.sections import MongoMount
from tests.unit.config.harness import decode_text, load_text, messages_of


def read(directory: Path, **sources: object) -> Decoded:
    return decode(
        load(ConfigSources(directory=directory, **{"environ": {}, **sources})),  # type: ignore[arg-type]
        SECTIONS,
    )


def test_without_sources_every_section_has_its_defaults(tmp_path: Path) -> None:
    decoded = read(tmp_path)

    assert decoded.get(Graphql) == Graphql()
    assert set(decoded.sections) == set(SECTIONS)
    assert decoded.warnings == ()


def test_each_source_wins_over_the_ones_before_it(tmp_path: Path) -> None:
    (tmp_path / "docgraph.yml").write_text(
        "graphql: {max-limit: 1, default-limit: 1, query-time-limit: 1, app-cache-ttr: 1000}"
    )
    overrides_file = tmp_path / "more.yml"
    overrides_file.write_text("graphql: {max-limit: 200, query-time-limit: 2, app-cache-ttr: 2000}")
    tree = load(
        ConfigSources(
            overrides_file=overrides_file,
            settings=("/graphql/max-limit=400",),
            environ={
                "DOCGRAPH_OVERRIDES": "/graphql/max-limit -> 300; /graphql/app-cache-ttr -> 3000"
            },
            directory=tmp_path,
        )
    )

    graphql = decode(tree, SECTIONS).get(Graphql)

    assert graphql.max_limit == 400
    assert graphql.app_cache_ttr == 3000
    assert graphql.query_time_limit == 2
    assert graphql.default_limit == 1
    assert tree.origin("/graphql/max-limit") == "--set"
    assert tree.origin("/graphql/app-cache-ttr") == "DOCGRAPH_OVERRIDES"
    assert tree.origin("/graphql/query-time-limit") == f"{overrides_file}:1:27"
    assert tree.origin("/graphql/default-limit") == "docgraph.yml:1:25"
    assert tree.origin("/graphql/verbose") == "built-in default"


def test_the_file_is_found_by_option_then_variable_then_place(tmp_path: Path) -> None:
    for name in ("docgraph.yml", "variable.yml", "option.yml"):
        (tmp_path / name).write_text(f"core: {{name: {name}}}")
    environ = {"DOCGRAPH_CONFIG": "variable.yml"}

    assert read(tmp_path).get(Core).name == "docgraph.yml"
    assert read(tmp_path, environ=environ).get(Core).name == "variable.yml"
    by_option = read(tmp_path, environ=environ, file=Path("option.yml"))
    assert by_option.get(Core).name == "option.yml"


@pytest.mark.parametrize("name", ["missing.yml", "directory", "latin.yml", "long.yml"])
def test_a_file_that_cannot_be_read_is_one_clear_problem(tmp_path: Path, name: str) -> None:
    (tmp_path / "directory").mkdir()
    (tmp_path / "latin.yml").write_bytes(b"core: {name: \xe9}")
    (tmp_path / "long.yml").write_bytes(b"#" * 2_000_000)

    with pytest.raises(ConfigError) as caught:
        read(tmp_path, file=Path(name))

    [problem] = caught.value.problems
    assert problem.origin.startswith(name)


def test_a_byte_order_mark_is_no_part_of_the_first_key(tmp_path: Path) -> None:
    (tmp_path / "docgraph.yml").write_bytes(b"\xef\xbb\xbfcore: {name: x}")

    assert read(tmp_path).get(Core).name == "x"


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("o.yml", "graphql:\n  max-limit: 500\ncore:\n  name: a;b\n"),
        ("o.json", '{\n\t"graphql": {"max-limit": 500},\n\t"/core/name": "a;b"\n}'),
        ("o.yaml", "/graphql/max-limit: 500\n/core/name: a;b\n"),
        ("o.conf", "# it's 'ours\n/graphql/max-limit -> 500;\n\n/core/name -> \"a;b\"  ;"),
        ("o.conf", "/graphql -> {\n  'max-limit': 500\n}\n/core/name->'a;b'"),
    ],
)
def test_an_overrides_file_is_nested_or_paths_or_the_grammar(
    tmp_path: Path, name: str, text: str
) -> None:
    (tmp_path / name).write_text(text)

    decoded = read(tmp_path, overrides_file=Path(name))

    assert decoded.get(Graphql).max_limit == 500
    assert decoded.get(Core).name == "a;b"


def test_overrides_know_the_line_of_a_conf_file(tmp_path: Path) -> None:
    (tmp_path / "o.conf").write_text("# comment\n/core/name -> x\n  /core/workers -> y\n")

    with pytest.raises(ConfigError) as caught:
        read(tmp_path, overrides_file=Path("o.conf"))

    assert [problem.origin for problem in caught.value.problems] == ["o.conf:3:3"]


@pytest.mark.parametrize(
    ("value", "name"),
    [
        ('"x"', "x"),
        ("'it''s; fine'", "it's; fine"),
        ("it's", "it's"),
        ('"a\\"b;c"', 'a"b;c'),
        ("plain text", "plain text"),
    ],
)
def test_values_of_overrides_are_json_or_yaml(tmp_path: Path, value: str, name: str) -> None:
    overrides = f"/core/name -> {value} ; /core/workers -> 2;"

    core = decode_text(tmp_path, overrides=overrides).get(Core)

    assert (core.name, core.workers) == (name, 2)


def test_objects_join_and_lists_are_replaced(tmp_path: Path) -> None:
    text = "graphql: {limits: {depth: 3}}\ncore: {tracing-headers: [a, b]}\n"
    overrides = '/graphql/limits -> {"aliases": 4}; /core/tracing-headers -> ["c"]'

    decoded = decode_text(
        tmp_path, text, settings=("/graphql/limits/tokens=5",), overrides=overrides
    )

    limits = decoded.get(Graphql).limits
    assert (limits.aliases, limits.tokens) == (4, 5)
    assert limits.depth == 15  # a path replaces what it names
    assert decoded.get(Core).tracing_headers == ("c",)


def test_list_indexes_count_from_one_and_reach_the_defaults(tmp_path: Path) -> None:
    decoded = decode_text(
        tmp_path,
        settings=(
            "/mongo/mongo-mounts[1]/where=/api",
            '/mongo/mongo-mounts[2]={"what": "/other", "where": "/other"}',
        ),
    )

    assert decoded.get(Mongo).mongo_mounts == (
        MongoMount(what="/docgraph", where="/api"),
        MongoMount(what="/other", where="/other"),
    )


@pytest.mark.parametrize(
    ("setting", "line"),
    [
        (
            "/graphql/max-limt=1",
            "--set: /graphql/max-limt: unknown option (did you mean 'max-limit'?)",
        ),
        ("/grapql/max-limit=1", "--set: /grapql: unknown section (did you mean 'graphql'?)"),
        (
            "/core/workers/x=1",
            "--set: /core/workers: expected a whole number, got a mapping",
        ),
        (
            "/mongo/mongo-mounts[3]/what=/x",
            "--set: /mongo/mongo-mounts[3]/what: there is no element [3]: the list has 1",
        ),
        ("/core/workers[1]=2", "--set: /core/workers[1]: an index, and there is no list"),
        (
            "/core/tracing-headers[0]=2",
            "--set: /core/tracing-headers[0]: '[0]' is not an index, which counts from 1",
        ),
        ("core/workers=2", "--set: not '<path>=<value>' (write '--set /section/option=value')"),
        ("/core/workers", "--set: not '<path>=<value>' (write '--set /section/option=value')"),
        ("/core/workers=[", "--set: /core/workers: "),
        ("//=2", "--set: //: not a path, which looks like '/graphql/max-limit'"),
    ],
)
def test_a_path_that_leads_nowhere_is_a_problem(tmp_path: Path, setting: str, line: str) -> None:
    [message] = messages_of(tmp_path, settings=(setting,))

    assert message.startswith(line)


def test_stepping_into_a_single_value_of_the_file_is_a_problem(tmp_path: Path) -> None:
    [message] = messages_of(tmp_path, "core: {name: x}", settings=("/core/name/first=1",))

    assert message == (
        "--set: /core/name/first: 'first' leads nowhere: there is a single value above it"
    )


def test_a_broken_entry_is_named_by_number_and_never_repeated(tmp_path: Path) -> None:
    [message] = messages_of(tmp_path, overrides="/core/name -> x; hunter2")

    assert "entry 2" in message
    assert "hunter2" not in message


def test_a_misspelt_variable_is_a_problem(tmp_path: Path) -> None:
    tree = load(ConfigSources(environ={"DOCGRAPH_OVERRIDE": "x"}, directory=tmp_path))

    [problem] = tree.problems
    assert problem.path == "DOCGRAPH_OVERRIDE"
    assert problem.hint == "did you mean 'DOCGRAPH_OVERRIDES'?"


def test_other_variables_with_our_prefix_are_a_warning(tmp_path: Path) -> None:
    tree = load(ConfigSources(environ={"DOCGRAPH_WHATEVER": "x"}, directory=tmp_path))

    assert tree.problems == ()
    assert [warning.path for warning in tree.warnings] == ["DOCGRAPH_WHATEVER"]


def test_variables_that_a_cluster_sets_are_none_of_our_business(tmp_path: Path) -> None:
    environ = {
        "DOCGRAPH_SERVICE_HOST": "10.0.0.1",
        "DOCGRAPH_SERVICE_PORT": "8080",
        "DOCGRAPH_PORT": "tcp://10.0.0.1:8080",
        "DOCGRAPH_PORT_8080_TCP_ADDR": "10.0.0.1",
    }

    tree = load(ConfigSources(environ=environ, directory=tmp_path))

    assert (tree.problems, tree.warnings) == ((), ())


def test_a_section_may_be_empty(tmp_path: Path) -> None:
    assert decode_text(tmp_path, "graphql:\ncore:\n").get(Graphql) == Graphql()


def test_a_file_that_is_no_mapping_is_a_problem(tmp_path: Path) -> None:
    [message] = messages_of(tmp_path, "- a\n- b\n")

    assert message == "docgraph.yml:1:1: not a mapping of sections (write 'section:' first)"


def test_origins_of_list_elements_can_be_asked_for(tmp_path: Path) -> None:
    tree = load_text(tmp_path, "core:\n  tracing-headers:\n    - a\n    - b\n")

    assert tree.origin("/core/tracing-headers[2]") == "docgraph.yml:4:7"
    assert tree.origin("/core/tracing-headers") == "docgraph.yml:2:3"


def locate(tmp_path: Path, problem: Problem) -> str:
    file = tmp_path / "docgraph.yml"
    file.write_text("core:\n  name: x\nsome:\n  users:\n    - {a: 1}\n    - b: 2\n      roles: 3\n")
    tree = load(ConfigSources(file=file, environ={}, directory=tmp_path))
    with pytest.raises(ConfigError) as caught, locating(tree):
        raise ConfigError([problem])
    (found,) = caught.value.problems
    return found.origin.removeprefix(f"{tmp_path}/")


@pytest.mark.parametrize(
    ("path", "place"),
    [
        ("/some/users[2]/roles", "docgraph.yml:7:7"),
        ("/some/users[2]/absent", "docgraph.yml:6:7"),
        ("/some/users[1]", "docgraph.yml:5:7"),
        ("/other/option", "built-in default"),
    ],
)
def test_the_nearest_thing_that_somebody_wrote_is_blamed(
    tmp_path: Path, path: str, place: str
) -> None:
    assert locate(tmp_path, Problem(CONFIGURATION, path, "wrong")) == place


def test_a_place_that_is_known_stays(tmp_path: Path) -> None:
    assert locate(tmp_path, Problem("users.yml:3:1", "/core/name", "wrong")) == "users.yml:3:1"
