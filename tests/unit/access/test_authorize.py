"""A request proceeds when no vetoer denies and at least one allower approves (decision 38)."""

from typing import Any, ClassVar

import pytest

from docgraph.access.authorize import LOGIN_DEMANDED, Authorization, FullAuthorizer, decide
from docgraph.access.sections import FullAuthorizer as FullAuthorizerConfig
from docgraph.exchange import Account, DataRequest, Exchange, Request, StartupError
from docgraph.exchange.errors import (
    Overloaded,
    RequestError,
    StoreUnavailable,
    Unauthenticated,
)
from docgraph.observe.events import PluginFailed
from docgraph.plugins.kinds import Authorizer, AuthorizerRole, Decision
from tests.http.harness import listening

pytestmark = pytest.mark.anyio


def make_authorizer(
    role_of: AuthorizerRole,
    allowed: bool,
    *,
    requires: Exception | bool = True,
    raises: Exception | None = None,
) -> Any:
    class Test(Authorizer):
        name: ClassVar[str] = f"{role_of}-{allowed}"
        role: ClassVar[AuthorizerRole] = role_of

        def __init__(self) -> None:
            pass

        async def decide(self, exchange: Exchange) -> Decision:
            if raises is not None:
                raise raises
            return Decision(allowed, "because")

        def requires_authentication(self, exchange: Exchange) -> bool:
            if isinstance(requires, Exception):
                raise requires
            return requires

    return Test()


def vetoer(allowed: bool, **how: Any) -> Any:
    return make_authorizer(AuthorizerRole.VETOER, allowed, **how)


def allower(allowed: bool, **how: Any) -> Any:
    return make_authorizer(AuthorizerRole.ALLOWER, allowed, **how)


def make_exchange(account: Account | None = None, method: str = "GET") -> Exchange:
    return Exchange(Request(method, b"/"), "1", account=account)


ADA = Account("ada")


@pytest.mark.parametrize(
    ("vetoers", "allowers", "proceeds"),
    [
        ([], [True], True),
        ([], [False], False),
        ([], [False, True], True),
        ([True], [True], True),
        ([False], [True], False),
        ([True, False], [True], False),
        ([True], [False], False),
    ],
)
async def test_truth_table_of_vetoers_and_allowers(
    vetoers: list[bool], allowers: list[bool], proceeds: bool
) -> None:
    authorization = Authorization([*map(vetoer, vetoers), *map(allower, allowers)])
    exchange = make_exchange(ADA)
    veto = await authorization.find_veto(exchange)
    decision = await authorization.find_approval(exchange, secured=True)
    assert (veto is None and decision.allowed) is proceeds


async def test_an_authorizer_that_raises_denies() -> None:
    broken = Authorization(
        [vetoer(True, raises=RuntimeError()), allower(True, raises=RuntimeError())]
    )
    veto = await broken.find_veto(make_exchange(ADA))
    assert veto is not None
    assert not (await broken.find_approval(make_exchange(ADA), secured=True)).allowed


async def test_a_server_that_has_too_much_to_do_says_so_and_forbids_nothing() -> None:
    """An authorizer that waits for the body may find no place behind it."""
    busy = Overloaded("busy")
    authorization = Authorization([vetoer(True, raises=busy), allower(True, raises=busy)])
    with pytest.raises(Overloaded):
        await authorization.find_veto(make_exchange(ADA))
    with pytest.raises(Overloaded):
        await authorization.find_approval(make_exchange(ADA), secured=True)


async def test_an_anonymous_caller_is_not_shown_to_allowers_that_require_a_login() -> None:
    authorization = Authorization([allower(True, requires=True)])
    assert not (await authorization.find_approval(make_exchange(), secured=True)).allowed


class DemandingVetoer(Authorizer):
    """Vetoes nothing or everything, and may require a login."""

    name: ClassVar[str] = "demanding"
    role: ClassVar[AuthorizerRole] = AuthorizerRole.VETOER

    def __init__(self, demands: bool, *, vetoes: bool = False) -> None:
        self._demands, self._vetoes = demands, vetoes

    async def decide(self, exchange: Exchange) -> Decision:
        return Decision(not self._vetoes, "because")

    async def demands_login(self, exchange: Exchange) -> bool:
        return self._demands


@pytest.mark.parametrize("demanded", [(True, False), (False, True), (True, True)])
async def test_one_authorizer_that_demands_a_login_suffices(demanded: tuple[bool, ...]) -> None:
    """Of callers who have none, and not of OPTIONS; and before any veto is reported."""
    open_to_all = allower(True, requires=False)
    authorization = Authorization([*map(DemandingVetoer, demanded), open_to_all])

    assert await authorization.find_approval(make_exchange(), secured=True) == LOGIN_DEMANDED
    assert await authorization.find_approval(make_exchange(), secured=False) == LOGIN_DEMANDED
    for exchange in (make_exchange(ADA), make_exchange(method="OPTIONS")):
        assert (await authorization.find_approval(exchange, secured=True)).allowed
    denying = Authorization([DemandingVetoer(True, vetoes=True), open_to_all])
    with pytest.raises(Unauthenticated):
        await denying.find_veto(make_exchange())
    veto = await denying.find_veto(make_exchange(ADA))
    assert veto is not None
    assert veto.reason == "because"


async def test_a_login_that_nobody_demands_is_not_demanded() -> None:
    authorization = Authorization([DemandingVetoer(False), allower(True, requires=False)])
    assert (await authorization.find_approval(make_exchange(), secured=True)).allowed


async def test_an_authorizer_is_not_asked_while_what_it_decides_by_is_empty() -> None:
    """The list may grow: from then on it decides."""
    denying, demanding, approving = vetoer(False), DemandingVetoer(True), allower(True)
    lists: list[list[str]] = [[], [], []]
    denying.decides_by, approving.decides_by = lists[0], lists[2]
    demanding.demands_by = lists[1]  # type: ignore[attr-defined]
    authorization = Authorization([denying, demanding, approving])

    assert await authorization.find_veto(make_exchange(ADA)) is None
    assert not await authorization.demands_login(make_exchange())
    assert not (await authorization.find_approval(make_exchange(ADA), secured=True)).allowed
    for grown in lists:
        grown.append("something")
    assert await authorization.find_veto(make_exchange(ADA)) is not None
    assert await authorization.demands_login(make_exchange())
    assert (await authorization.find_approval(make_exchange(ADA), secured=True)).allowed


async def test_a_vetoer_of_rest_requests_sees_no_others() -> None:
    denying = vetoer(False)
    denying.only_data = True
    authorization = Authorization([denying, allower(True)])
    exchange = make_exchange(ADA)

    assert await authorization.find_veto(exchange) is None
    exchange.parsed = DataRequest()
    assert await authorization.find_veto(exchange) is not None


async def test_an_allower_may_admit_anonymous_callers() -> None:
    authorization = Authorization([allower(True, requires=False)])
    assert (await authorization.find_approval(make_exchange(), secured=True)).allowed


async def test_what_is_not_secured_and_options_need_no_allower() -> None:
    """Decision 38: vetoers still see them."""
    authorization = Authorization([allower(False)])
    assert (await authorization.find_approval(make_exchange(), secured=False)).allowed
    options = make_exchange(method="OPTIONS")
    assert (await authorization.find_approval(options, secured=True)).allowed
    vetoed = Authorization([vetoer(False), allower(True)])
    assert await vetoed.find_veto(options) is not None


async def test_a_decision_names_its_authorizer_and_reason() -> None:
    decision = await Authorization([allower(True)]).find_approval(make_exchange(ADA), secured=True)
    assert (decision.authorizer, decision.reason) == ("allower-True", "because")


async def test_a_decision_that_names_its_authorizer_stays_as_it_is() -> None:
    own = Decision(True, "because", "allower-True")
    naming = allower(True)
    naming.decide = lambda exchange: _later(own)

    decision = await Authorization([naming]).find_approval(make_exchange(ADA), secured=True)

    assert decision is own


def test_no_allower_at_all_refuses_to_start() -> None:
    """Or none that could approve anything."""
    idle, busy = allower(True), allower(True)
    idle.is_idle, busy.is_idle = True, False
    for nothing in ([], [idle]):
        with pytest.raises(StartupError, match="no allower"):
            Authorization([vetoer(True), *nothing])
    Authorization([busy])
    Authorization([idle, allower(True)])


async def test_each_allower_is_asked_until_one_approves() -> None:
    """Whether those before it require a login, or could not read the database."""
    authorization = Authorization([allower(True), allower(True, requires=False)])
    assert (await authorization.find_approval(make_exchange(), secured=True)).allowed
    away = allower(True, raises=StoreUnavailable("away"))
    authorization = Authorization([away, allower(True)])
    assert (await authorization.find_approval(make_exchange(ADA), secured=True)).allowed


async def test_a_request_that_no_allower_can_decide_fails_as_the_first_of_them() -> None:
    first = allower(True, raises=StoreUnavailable("first"))
    second = allower(True, raises=StoreUnavailable("second"))
    authorization = Authorization([allower(False), first, second, allower(False)])

    with pytest.raises(StoreUnavailable, match="first"):
        await authorization.find_approval(make_exchange(ADA), secured=True)


async def test_an_allower_that_cannot_say_whether_it_requires_a_login_admits_no_one_anonymous() -> (
    None
):
    authorization = Authorization([allower(True, requires=RuntimeError())])
    with listening(PluginFailed) as heard:
        assert not (await authorization.find_approval(make_exchange(), secured=True)).allowed
    assert [(one.plugin, one.stage) for one in heard] == [
        ("allower-True", "requires_authentication")
    ]
    assert (await authorization.find_approval(make_exchange(ADA), secured=True)).allowed


@pytest.mark.parametrize("required", [True, False])
async def test_the_full_authorizer_approves_and_requires_a_login_as_configured(
    required: bool,
) -> None:
    authorizer = FullAuthorizer(FullAuthorizerConfig(authentication_required=required))
    assert (await authorizer.decide(make_exchange())).allowed
    assert authorizer.requires_authentication(make_exchange()) is required


@pytest.mark.parametrize("returned", [True, None, 1, "yes"])
async def test_an_authorizer_that_returns_no_decision_denies(returned: object) -> None:
    """A plugin that returns `True` has not read how it is done; nothing is admitted by it."""
    careless = allower(True)
    careless.decide = lambda exchange: _later(returned)
    strict = vetoer(True)
    strict.decide = careless.decide
    authorization = Authorization([strict, careless])

    with listening(PluginFailed) as heard:
        assert await authorization.find_veto(make_exchange(ADA)) is not None
        assert not (await authorization.find_approval(make_exchange(ADA), secured=True)).allowed
        assert not (await decide(careless, make_exchange(ADA))).allowed

    assert len(heard) == 3


async def _later(value: object) -> object:
    return value


@pytest.mark.parametrize("error", [RuntimeError("secret"), RequestError("the body is no JSON")])
async def test_one_authorizer_that_raises_denies_and_is_named(error: Exception) -> None:
    decision = await decide(allower(True, raises=error), make_exchange(ADA))

    assert (decision.allowed, decision.authorizer) == (False, "allower-True")
    assert "secret" not in decision.reason


async def test_an_authorizer_that_cannot_read_the_database_does_not_decide() -> None:
    """The request fails: neither a denial nor another allower may take its place."""
    with pytest.raises(StoreUnavailable):
        await decide(allower(True, raises=StoreUnavailable("away")), make_exchange(ADA))
