"""Fixtures of pytest for tests of apps; nothing more of docgraph is imported until one is used."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from docgraph.testing import AppClient, RunningApp

    StartApp = Callable[..., RunningApp]


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option that writes snapshots."""
    words = "write the answers that assert_answer compares with"
    parser.getgroup("docgraph").addoption("--docgraph-update", action="store_true", help=words)


def pytest_load_initial_conftests(early_config: pytest.Config) -> None:
    """Have docgraph imported as it is: pytest would rewrite the assertions of all its modules.

    It does so for every package with a plugin, which takes seconds.
    """
    vars(early_config.pluginmanager.rewrite_hook).get("_must_rewrite", set()).discard("docgraph")


@pytest.fixture(scope="session")
def docgraph_mongo() -> Iterator[str]:
    """The connection string of an embedded MongoDB, one for each process of a test run."""
    from docgraph.testing import running_mongo

    with _explaining(), running_mongo() as uri:
        yield uri


@pytest.fixture(scope="session")
def docgraph_settings(pytestconfig: pytest.Config) -> Mapping[str, Any]:
    """The arguments of `running_app`; define a fixture of this name for those of your project."""
    return {"directory": pytestconfig.rootpath}


@pytest.fixture(scope="session")
def docgraph_start(docgraph_mongo: str) -> Iterator[StartApp]:
    """Start an application with these arguments, unless the one that runs has the same."""
    from docgraph.testing import running_app

    running: dict[str, RunningApp] = {}
    with ExitStack() as stack:

        def start(**settings: Any) -> RunningApp:
            if (key := repr(settings)) not in running:
                running.clear()
                stack.close()  # the database has the documents of one application at a time
                with _explaining():
                    running[key] = stack.enter_context(running_app(docgraph_mongo, **settings))
            return running[key]

        yield start


@pytest.fixture
def docgraph_app(docgraph_start: StartApp, docgraph_settings: Mapping[str, Any]) -> RunningApp:
    """The application of `docgraph_settings`, with the documents of its files."""
    app = docgraph_start(**docgraph_settings)
    app.reset()
    return app


@pytest.fixture
def docgraph_client(docgraph_app: RunningApp, request: pytest.FixtureRequest) -> AppClient:
    """A client of the application; snapshots are next to the test."""
    from docgraph.testing import AppClient

    update = request.config.getoption("--docgraph-update")
    return AppClient(docgraph_app, request.path.parent, update=update)


@contextmanager
def _explaining() -> Iterator[None]:
    """Fail with the message of an application or a database that cannot start."""
    from docgraph.exchange import StartupError

    try:
        yield
    except StartupError as error:
        pytest.fail(f"docgraph cannot start: {error.message}\n{error.hint or ''}", pytrace=False)
