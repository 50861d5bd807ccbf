"""`acl-registry` and its two authorizers."""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest

from docgraph.access.acl_registry import ACLRegistry, ACLRegistryAllower, ACLRegistryVetoer
from docgraph.access.authorize import Authorization
from docgraph.config.section import PluginConfig
from docgraph.exchange import Exchange, StartupError
from docgraph.exchange.errors import RequestError, Unauthenticated
from docgraph.observe.events import PluginFailed
from tests.expect import keep
from tests.http.harness import listening
from tests.unit.access.harness import ADA, make_exchange

pytestmark = pytest.mark.anyio


def authorize(registry: ACLRegistry) -> Authorization:
    config = PluginConfig()
    return Authorization(
        [ACLRegistryVetoer(config, registry), ACLRegistryAllower(config, registry)]
    )


async def decide(registry: ACLRegistry, exchange: Exchange, *, secured: bool = True) -> int:
    """The status that the pipeline makes of it."""
    authorization = authorize(registry)
    try:
        if await authorization.find_veto(exchange) is not None:
            return 403
    except Unauthenticated:
        return 401
    decision = await authorization.find_approval(exchange, secured=secured)
    if decision.allowed:
        return 200
    return 401 if exchange.account is None else 403


def build(veto: Any, allow: Any, requirement: Any) -> ACLRegistry:
    registry = ACLRegistry()
    registry.registerVeto(veto)
    registry.registerAllow(allow)
    registry.registerAuthenticationRequirement(requirement)
    return registry


def answer(value: bool, *, awaited: bool) -> Any:
    async def later(request: Any) -> bool:
        return value

    return later if awaited else lambda request: value


def expect(veto: bool, allow: bool, requirement: bool, known: bool) -> int:
    if not known and requirement:
        return 401
    if veto:
        return 403
    if allow:
        return 200
    return 403 if known else 401


TABLE = list(product((False, True), repeat=4))


@pytest.mark.parametrize("awaited", [False, True])
@pytest.mark.parametrize(("veto", "allow", "requirement", "known"), TABLE)
async def test_truth_table(
    veto: bool, allow: bool, requirement: bool, known: bool, awaited: bool
) -> None:
    """A19, decision 38."""
    registry = build(*(answer(one, awaited=awaited) for one in (veto, allow, requirement)))
    exchange = make_exchange(account=ADA if known else None)
    assert await decide(registry, exchange) == expect(veto, allow, requirement, known)


def fail(request: Any) -> bool:
    raise RuntimeError("broken")


async def fail_later(request: Any) -> bool:
    raise RuntimeError("broken")


@pytest.mark.parametrize("broken", [fail, fail_later])
@pytest.mark.parametrize(
    ("place", "known", "expected"),
    [(0, True, 403), (1, True, 403), (2, False, 401), (2, True, 200)],
)
async def test_a_predicate_that_raises_counts_against_the_caller(
    broken: Any, place: int, known: bool, expected: int
) -> None:
    good = [answer(False, awaited=False), answer(True, awaited=False), answer(False, awaited=False)]
    good[place] = broken
    with listening(PluginFailed) as failures:
        status = await decide(build(*good), make_exchange(account=ADA if known else None))
    assert status == expected
    assert len(failures) >= (place != 2 or not known)
    assert all(one.plugin == "acl-registry" for one in failures)


async def test_predicates_take_the_request_which_knows_its_account() -> None:
    seen: list[Any] = []
    registry = ACLRegistry()
    registry.register_allow(lambda request: keep(seen, request))
    exchange = make_exchange("PUT", "/x/y?a=1")
    assert await decide(registry, exchange) == 200
    (request,) = seen
    assert (request.method, request.path, request.account) == ("PUT", "/x/y", ADA)


async def test_one_of_several_requirements_is_enough() -> None:
    registry = ACLRegistry()
    registry.register_allow(lambda request: True)
    registry.register_authentication_requirement(lambda request: False)
    registry.register_authentication_requirement(lambda request: request.path == "/closed")
    assert await decide(registry, make_exchange(path="/open", account=None)) == 200
    assert await decide(registry, make_exchange(path="/closed", account=None)) == 401


async def test_vetoes_and_requirements_hold_for_services_that_are_not_secured() -> None:
    """Decision 38."""
    registry = ACLRegistry()
    registry.register_allow(lambda request: False)
    registry.register_veto(lambda request: request.path == "/veto")
    registry.register_authentication_requirement(lambda request: request.path == "/login")
    for path, expected in (("/", 200), ("/veto", 403), ("/login", 401)):
        exchange = make_exchange(path=path, account=None)
        assert await decide(registry, exchange, secured=False) == expected


async def test_options_are_vetoed_and_never_made_to_log_in() -> None:
    registry = build(
        lambda request: request.path == "/veto", lambda request: True, lambda request: True
    )
    assert await decide(registry, make_exchange("OPTIONS", "/", account=None)) == 200
    assert await decide(registry, make_exchange("OPTIONS", "/veto", account=None)) == 403


def test_a_registry_without_allow_predicates_is_no_allower() -> None:
    """Decision 38: no allower configured at all refuses to start."""
    with pytest.raises(StartupError, match="no allower"):
        authorize(ACLRegistry())


async def test_decisions_name_the_predicate() -> None:
    registry = ACLRegistry()
    registry.register_veto(fail)
    veto = await ACLRegistryVetoer(PluginConfig(), registry).decide(make_exchange())
    assert veto.reason.endswith("test_acl_registry.fail holds")


async def test_a_request_that_cannot_be_read_is_denied_without_noise() -> None:
    def read(request: Any) -> bool:
        raise RequestError("the query string is not valid UTF-8")

    with listening(PluginFailed) as failures:
        assert await decide(build(read, lambda request: True, read), make_exchange()) == 403
    assert failures == []


async def test_a_requirement_that_changes_its_mind_does_not_lift_a_veto() -> None:
    answers = iter([True, False, False])
    registry = build(lambda request: True, lambda request: True, lambda request: next(answers))
    assert await decide(registry, make_exchange(account=None)) == 401


async def test_predicates_that_are_registered_later_count() -> None:
    """An authorizer without predicates is not called; with the first one it is."""
    registry = ACLRegistry()
    registry.register_allow(lambda request: True)
    authorization, exchange = authorize(registry), make_exchange(account=None)
    assert await authorization.find_veto(exchange) is None
    assert (await authorization.find_approval(exchange, secured=True)).allowed

    registry.register_authentication_requirement(lambda request: True)
    assert not (await authorization.find_approval(exchange, secured=True)).allowed
    registry.register_veto(lambda request: True)
    with pytest.raises(Unauthenticated):
        await authorization.find_veto(exchange)
    assert await authorization.find_veto(make_exchange(account=ADA)) is not None
