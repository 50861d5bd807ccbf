"""Injection and life cycle of plugins."""

from typing import Any, ClassVar

import pytest

from docgraph.config.section import PluginConfig
from docgraph.exchange import StartupError
from docgraph.plugins import FoundPlugin, assemble
from docgraph.plugins.assemble import PluginSet
from docgraph.plugins.kinds import Initializer, Kind, Provider
from tests.expect import present

pytestmark = pytest.mark.anyio


class Idle(Initializer):
    """Has nothing to do when the database first answers."""

    async def initialize(self) -> None:
        pass


class Recorder(Idle):
    """Writes down what happens to it."""

    name: ClassVar[str] = "recorder"
    security: ClassVar[bool] = False
    life: list[str]

    def __init__(self, config: Any, life: list[Any]) -> None:
        self.config = config
        self.life = life

    async def provision(self) -> None:
        self.life.append("provision")

    def validate(self) -> None:
        self.life.append("validate")

    async def close(self) -> None:
        self.life.append("close")


class Clock(Provider):
    name: ClassVar[str] = "clockProvider"
    provides: ClassVar[str] = "wall-clock"

    def get(self) -> str:
        return "noon"


class NeedsClock(Idle):
    name: ClassVar[str] = "needsClock"

    def __init__(self, config: Any, wall_clock: str) -> None:
        self.wall_clock = wall_clock


class Tea(PluginConfig, frozen=True):
    sugar: int = 0


class Drinker(Idle):
    name: ClassVar[str] = "drinker"

    def __init__(self, config: Any, cup: Tea) -> None:
        self.cup = cup


class DrinkerByText(Idle):
    """As under `from __future__ import annotations`."""

    name: ClassVar[str] = "drinkerByText"

    def __init__(self, config: Any, cup: "Tea") -> None:
        self.cup = cup


class MaybeDrinker(Idle):
    name: ClassVar[str] = "maybeDrinker"

    def __init__(self, config: Any, cup: Tea = Tea(sugar=9)) -> None:  # noqa: B008 - frozen
        self.cup = cup


class TeaOrNothing(Idle):
    name: ClassVar[str] = "teaOrNothing"

    def __init__(self, config: Any, cup: Tea | None = None) -> None:
        self.cup = cup


class TeaOrNothingByText(Idle):
    name: ClassVar[str] = "teaOrNothingByText"

    def __init__(self, config: Any, cup: "Tea | None" = None) -> None:
        self.cup = cup


def build(
    *plugins: Any, sections: dict[str, Any] | None = None, **values: int | list[Any]
) -> PluginSet:
    found = [FoundPlugin(plugin, "built-in") for plugin in plugins]
    return assemble(found, sections or {}, values)


def test_a_provider_is_injected_by_the_name_of_the_parameter() -> None:
    plugins = build(NeedsClock, Clock)
    (user,) = plugins.of_kind(Kind.INITIALIZER)
    assert user.wall_clock == "noon"


def test_a_missing_provider_names_the_plugin_and_what_is_there() -> None:
    with pytest.raises(StartupError, match=r"'needsClock'.*'wall-clock'") as caught:
        build(NeedsClock, store=1)
    assert "store" in present(caught.value.hint)


def test_a_disabled_provider_is_named() -> None:
    with pytest.raises(StartupError) as caught:
        build(NeedsClock, Clock, sections={"clockProvider": PluginConfig(enabled=False)})
    assert "'clockProvider' gives it, and is disabled" in present(caught.value.hint)


def test_an_optional_provider_may_be_absent() -> None:
    class Optional(NeedsClock):
        name: ClassVar[str] = "optional"

        def __init__(self, config: Any, wall_clock: Any = None) -> None:
            self.wall_clock = wall_clock

    (user,) = build(Optional).plugins
    assert isinstance(user, Optional)
    assert user.wall_clock is None


def test_a_cycle_is_shown_whole() -> None:
    class Egg(Provider):
        name: ClassVar[str] = "eggProvider"
        provides: ClassVar[str] = "egg"

        def __init__(self, config: Any, hen: Any) -> None:
            pass

    class Hen(Provider):
        name: ClassVar[str] = "henProvider"
        provides: ClassVar[str] = "hen"

        def __init__(self, config: Any, egg: Any) -> None:
            pass

    with pytest.raises(StartupError, match="eggProvider → henProvider → eggProvider"):
        build(Egg, Hen)


def test_two_givers_of_one_provider_stop_the_start() -> None:
    class Other(Clock):
        name: ClassVar[str] = "otherClock"

    with pytest.raises(StartupError, match="'wall-clock'"):
        build(Clock, Other)


def test_a_disabled_plugin_is_not_constructed() -> None:
    plugins = build(NeedsClock, sections={"needsClock": PluginConfig(enabled=False)})
    assert plugins.plugins == []


@pytest.mark.parametrize(
    ("own", "whole", "is_there"),
    [(None, None, True), (None, False, False), (None, True, True), (False, True, False)],
)
def test_a_part_of_another_plugin_is_off_with_it(
    own: bool | None, whole: bool | None, is_there: bool
) -> None:
    class Part(Idle):
        name: ClassVar[str] = "part"
        part_of: ClassVar[str] = "whole"

    sections = {"part": PluginConfig(enabled=own), "whole": PluginConfig(enabled=whole)}
    plugins = assemble((FoundPlugin(Part, "here"),), sections, {})

    assert bool(plugins.plugins) is is_there


def test_a_constructor_that_raises_stops_the_start_with_the_name_of_the_plugin() -> None:
    class Broken(Idle):
        name: ClassVar[str] = "broken"

        def __init__(self, config: Any) -> None:
            raise ValueError("no")

    with pytest.raises(StartupError, match=r"'broken'.*ValueError: no"):
        build(Broken)


async def test_life_is_provision_validate_close() -> None:
    life: list[str] = []
    plugins = build(Recorder, life=life)
    await plugins.start()
    await plugins.close()
    assert life == ["provision", "validate", "close"]


async def test_a_plugin_that_fails_to_start_is_taken_out_and_closed() -> None:
    class Failing(Recorder):
        name: ClassVar[str] = "failing"

        async def provision(self) -> None:
            raise RuntimeError("no luck")

    life: list[str] = []
    plugins = build(Failing, life=life)
    await plugins.start()
    assert plugins.plugins == []
    await plugins.close()
    assert life == ["close"]


async def test_a_security_plugin_that_fails_stops_the_start() -> None:
    class Failing(Recorder):
        name: ClassVar[str] = "failing"
        security: ClassVar[bool] = True

        async def provision(self) -> None:
            raise RuntimeError("no luck")

    with pytest.raises(StartupError, match="security plugin 'failing'"):
        await build(Failing, life=[]).start()


async def test_one_plugin_that_fails_to_close_does_not_keep_the_others_open() -> None:
    class Sticky(Recorder):
        name: ClassVar[str] = "sticky"

        async def close(self) -> None:
            raise RuntimeError("stuck")

    life: list[str] = []
    plugins = build(Recorder, Sticky, life=life)
    await plugins.start()
    await plugins.close()
    assert life[-1] == "close"


@pytest.mark.parametrize(
    "plugin", [Drinker, DrinkerByText, MaybeDrinker, TeaOrNothing, TeaOrNothingByText]
)
def test_a_section_is_injected_by_its_struct_whatever_the_parameter_is_called(plugin: Any) -> None:
    sections = {"afternoon": Tea(sugar=2), "other": PluginConfig()}
    (drinker,) = build(plugin, sections=sections).plugins
    assert isinstance(drinker, plugin)
    assert drinker.cup is sections["afternoon"]


def test_a_plugin_from_outside_that_reuses_a_struct_does_not_take_its_place() -> None:
    class Herbal(Idle):
        name: ClassVar[str] = "herbal"
        Config = Tea

    found = [FoundPlugin(Herbal, "the plugins directory"), FoundPlugin(Drinker, "built-in")]
    sections = {"herbal": Tea(sugar=1), "tea": Tea(sugar=2)}
    _, drinker = assemble(found, sections, {}).plugins
    assert isinstance(drinker, Drinker)
    assert drinker.cup is sections["tea"]


def test_a_section_that_may_be_absent_leaves_the_default() -> None:
    (drinker,) = build(MaybeDrinker).plugins
    assert isinstance(drinker, MaybeDrinker)
    assert drinker.cup == Tea(sugar=9)


@pytest.mark.parametrize(
    ("sections", "named"),
    [({}, "there is: none"), ({"b": Tea(), "a": Tea()}, "there is: a, b")],
)
def test_a_struct_of_no_section_or_of_several_is_refused_with_their_names(
    sections: dict[str, Any], named: str
) -> None:
    with pytest.raises(StartupError, match=f"'drinker' from built-in needs .* Tea; {named}"):
        build(Drinker, sections=sections)
