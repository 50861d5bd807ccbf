"""What is wrong with a plugin is told when it is constructed, with its name and the way out.

Data interceptors that nothing would call do not start.
"""

from __future__ import annotations

from typing import Any, ClassVar

import pytest

from docgraph import (
    Authorizer,
    AuthorizerRole,
    Body,
    Command,
    DataInterceptor,
    Decision,
    Initializer,
    Interceptor,
    Kind,
    Plugin,
    PluginConfig,
    Provider,
    Service,
    ServiceConfig,
    StartupError,
    VariableResolver,
)
from docgraph.cli import COMMANDS
from docgraph.exchange import DataPoint, Resource
from docgraph.plugins import FoundPlugin, PluginSet, assemble
from docgraph.plugins.check import BUILT_IN_COMMANDS, _check_method, has_method_for, methods_of
from docgraph.plugins.registry import section_struct
from docgraph.server.builtin import BUILTIN


class Hall(Service):
    name: ClassVar[str] = "hall"
    uri: ClassVar[str] = "/hall"

    async def handle(self, exchange: Any) -> Body:
        return Body()


class Door(Interceptor):
    name: ClassVar[str] = "door"

    async def handle(self, exchange: Any) -> None:
        return None


class Judge(Authorizer):
    name: ClassVar[str] = "judge"

    async def decide(self, exchange: Any) -> Decision:
        return Decision(True, "why not")


class Moon(VariableResolver):
    name: ClassVar[str] = "moon"
    variable: ClassVar[str] = "moon"

    async def resolve_variable(self, exchange: Any, expression: str) -> str:
        return "full"


class Quiet(DataInterceptor):
    name: ClassVar[str] = "quiet"

    async def before_read(self, exchange: Any, resource: Any, read: Any) -> Any:
        return read


class Lamp(Provider):
    name: ClassVar[str] = "lamp"

    def get(self) -> int:
        return 1


class Greet(Command):
    name: ClassVar[str] = "greet"

    async def run(self, arguments: Any) -> int:
        return 0


def build(plugin: type[Any], section: PluginConfig | None = None) -> PluginSet:
    sections = {} if section is None else {plugin.name: section}
    return assemble([FoundPlugin(plugin, "hall.py")], sections, {})


def vary(plugin: type[Any], **attributes: Any) -> type[Plugin]:
    """The plugin, with these attributes in place of its own."""
    return type(plugin.__name__, (plugin,), attributes)


async def generator(self: Any, exchange: Any) -> Any:
    yield Body()


async def lonely(self: Any) -> Body:
    return Body()


async def answers(self: Any, exchange: Any) -> bool:
    return True


class Nowhere(Service):
    name: ClassVar[str] = "hall"

    async def handle(self, exchange: Any) -> Body:
        return Body()


@pytest.mark.parametrize(
    ("plugin", "told"),
    [
        (Nowhere, "the service 'hall' from hall.py has no `uri`"),
        (vary(Hall, uri="hall"), "the service 'hall' from hall.py has the `uri` 'hall'"),
        (vary(Hall, uri=5), "the service 'hall' from hall.py has no `uri`"),
        (vary(Hall, methods="GET"), "has the `methods` 'GET'"),
        (vary(Hall, methods=None), "has the `methods` None"),
        (vary(Hall, handle=Service.handle), "has no method `handle`"),
        (vary(Hall, handle=None), "has no method `handle`"),
        (vary(Hall, handle=generator), "has a `handle` that is a generator"),
        (vary(Hall, handle=lonely), "has a `handle(self)` that cannot be called"),
        (vary(Hall, parse=answers), "has an `async def parse`, which is never awaited"),
        (vary(Hall, allowed_methods=answers), "has an `async def allowed_methods`"),
        (vary(Door, resolve=answers), "the interceptor 'door' from hall.py has an `async def reso"),
        (vary(Door, point="respond"), "has the `point` 'respond'"),
        (vary(Door, priority="first"), "has the `priority` 'first'"),
        (vary(Judge, role="vetoer"), "the authorizer 'judge' from hall.py has the `role` 'vetoer'"),
        (vary(Moon, variable="@moon"), "has the `variable` '@moon'"),
        (vary(Moon, variable=None), "has the `variable` None"),
        (
            vary(Greet, name="users"),
            "the command 'users' from hall.py can never be run",
        ),
        (Quiet, "the data-interceptor 'quiet' from hall.py has no method `resolve`"),
        (Lamp, "the provider 'lamp' from hall.py does not say what it `provides`"),
        (vary(Judge, demand_login=answers), "has a method `demand_login`, which is never called"),
        (vary(Judge, require_authentication=answers), "has a method `require_authentication`"),
        (vary(Hall, render_errors=answers), "has a method `render_errors`"),
    ],
)
def test_a_flaw_stops_the_start_with_the_name_and_the_origin(
    plugin: type[Plugin], told: str
) -> None:
    with pytest.raises(StartupError) as caught:
        build(plugin)
    assert told in caught.value.message
    assert caught.value.hint


def test_methods_of_other_names_and_optional_ones_are_allowed() -> None:
    build(vary(Judge, demands_login=answers, find_case=answers, _demand_login=answers))


def test_the_commands_of_docgraph_are_known() -> None:
    build(Greet)
    assert set(COMMANDS) == BUILT_IN_COMMANDS


def test_a_method_that_is_missing_is_shown_as_it_should_be() -> None:
    with pytest.raises(StartupError) as caught:
        build(vary(Hall, handle=Service.handle))
    assert caught.value.hint == "write `async def handle(self, exchange)`"


def test_a_class_of_its_own_that_has_the_methods_is_taken() -> None:
    class Own:
        kind = Kind.INITIALIZER
        name = "own"
        enabled_by_default = True
        Config = PluginConfig

        def __init__(self, config: PluginConfig) -> None:
            pass

        async def provision(self) -> None:
            pass

        def validate(self) -> None:
            pass

        async def close(self) -> None:
            pass

        async def initialize(self) -> None:
            pass

    assert [one.name for one in build(Own).plugins] == ["own"]


@pytest.mark.parametrize(
    "plugin",
    [
        Hall,
        Door,
        Judge,
        Moon,
        vary(Door, point="response"),  # equal to the value of the enumeration
        vary(Judge, role=AuthorizerRole.VETOER),
    ],
)
def test_what_can_work_is_constructed(plugin: type[Plugin]) -> None:
    assert [one.name for one in build(plugin).plugins] == [plugin.name]


def test_the_uri_may_come_from_the_section_or_from_the_constructor() -> None:
    def place(self: Any, config: Any) -> None:
        self.uri = "/own"

    assert build(Nowhere, ServiceConfig(uri="/there")).plugins
    assert build(vary(Nowhere, __init__=place)).plugins


def test_every_kind_has_its_methods() -> None:
    for kind in Kind:
        assert {"provision", "validate", "close"} < set(methods_of(kind))
    assert set(methods_of(Kind.COMMAND)) == {"provision", "validate", "close", "run"}


# --- options --------------------------------------------------------------------------------------


class Tea(PluginConfig, frozen=True):
    sugar: int = 0


class OwnUri(PluginConfig, frozen=True):
    uri: str = "/own"


def test_every_service_has_uri_and_secured() -> None:
    for config in (Service.Config, PluginConfig, Tea, OwnUri):
        struct = section_struct(vary(Hall, Config=config))
        assert {"enabled", "uri", "secured"} <= set(struct.__struct_fields__)
        assert issubclass(struct, config)


def test_other_kinds_have_neither() -> None:
    assert section_struct(vary(Initializer, Config=Tea)) is Tea


def test_an_own_option_of_that_name_stays_as_it_is() -> None:
    assert section_struct(vary(Hall, Config=OwnUri))().uri == "/own"  # type: ignore[attr-defined]


def test_the_section_of_a_service_is_still_injected_by_its_own_struct() -> None:
    class Guest(Initializer):
        name: ClassVar[str] = "guest"

        def __init__(self, config: PluginConfig, cup: Tea) -> None:
            self.cup = cup

        async def initialize(self) -> None:
            pass

    hall = vary(Hall, Config=Tea)
    section = section_struct(hall)(sugar=2)  # type: ignore[call-arg]
    found = [FoundPlugin(hall, "hall.py"), FoundPlugin(Guest, "hall.py")]
    plugins = assemble(found, {"hall": section}, {})
    assert plugins.find("guest").cup is section


# --- our own --------------------------------------------------------------------------------------


@pytest.mark.parametrize("plugin", BUILTIN, ids=lambda plugin: plugin.name)
def test_built_in_plugins_have_the_methods_of_their_kinds(plugin: type[Plugin]) -> None:
    """They are not looked at when a server starts."""
    bare: Plugin = object.__new__(plugin)
    flaws = [
        flaw
        for name, declared in methods_of(plugin.kind).items()
        for flaw in _check_method(bare, name, declared)
    ]
    assert flaws == []


class Idle(DataInterceptor):
    name: ClassVar[str] = "idle"

    def resolve(self, resource: Resource) -> bool:
        return True


class Old(Idle):
    name: ClassVar[str] = "old"

    async def intercept(self, exchange: Any, resource: Any, subject: Any) -> Any:
        return subject


class OldAfterWrite(Old):
    name: ClassVar[str] = "oldAfterWrite"
    point: ClassVar[DataPoint] = DataPoint.AFTER_WRITE


class HalfNew(OldAfterWrite):
    name: ClassVar[str] = "halfNew"

    async def before_write(self, exchange: Any, resource: Any, write: Any) -> Any:
        return write


class Reader(Idle):
    name: ClassVar[str] = "reader"

    async def after_read(self, exchange: Any, resource: Any, documents: Any) -> Any:
        return documents


class InheritingReader(Reader):
    name: ClassVar[str] = "inheritingReader"


class Structural:
    """A plugin of the right shape that subclasses nothing."""

    kind: ClassVar[Kind] = Kind.DATA_INTERCEPTOR

    async def before_write(self, exchange: Any, resource: Any, write: Any) -> Any:
        return write


def start(plugin: type[DataInterceptor]) -> None:
    assemble([FoundPlugin(plugin, "the plugins directory")], {}, {})


def test_one_without_any_method_is_refused_and_told_what_there_is() -> None:
    with pytest.raises(StartupError, match="'idle' from the plugins directory has none") as refused:
        start(Idle)

    assert refused.value.hint == (
        "write one or more of `before_write(exchange, resource, write)`, "
        "`after_write(exchange, resource, write, result)`, "
        "`before_read(exchange, resource, read)`, `after_read(exchange, resource, documents)`"
    )


@pytest.mark.parametrize("plugin", [OldAfterWrite, HalfNew])
def test_one_of_the_old_form_is_told_what_to_write_instead(plugin: type[DataInterceptor]) -> None:
    with pytest.raises(StartupError, match="`intercept`, which is no longer called") as refused:
        start(plugin)

    assert refused.value.hint == (
        "write `after_write(exchange, resource, write, result)` in its place, and take out `point`"
    )


def test_one_of_the_old_form_without_a_point_is_told_all_methods() -> None:
    with pytest.raises(StartupError) as refused:
        start(Old)

    assert refused.value.hint is not None
    assert " or `after_read(exchange, resource, documents)` in its place" in refused.value.hint


@pytest.mark.parametrize("plugin", [Reader, InheritingReader])
def test_one_method_is_enough_and_may_be_inherited(plugin: type[DataInterceptor]) -> None:
    start(plugin)

    assert [point for point in DataPoint if has_method_for(plugin, point)] == [DataPoint.AFTER_READ]


def test_subclassing_is_not_required() -> None:
    points = [point for point in DataPoint if has_method_for(Structural, point)]

    assert points == [DataPoint.BEFORE_WRITE]
