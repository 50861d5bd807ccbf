"""`tools/error_codes.py`: the page of all error codes is that of the source."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from tools.error_codes import SOURCE, find_made, find_raised, render

from docgraph.exchange import errors
from docgraph.exchange.errors import DocgraphError
from docgraph.variables.errors import NotBound

PAGE = Path(__file__).parents[3] / "docs/reference/error-codes.md"


def test_the_page_is_up_to_date() -> None:
    assert PAGE.read_text() == render(), (
        "run: python tools/error_codes.py > docs/reference/error-codes.md"
    )


def test_every_code_that_is_assigned_anywhere_is_found() -> None:
    assigned = re.compile(r'\bcode\b[^=\n]*= (?:\d+, )?"([a-z]+(?:-[a-z]+)*)"')

    codes = {one for path in SOURCE.rglob("*.py") for one in assigned.findall(path.read_text())}

    assert find_raised().keys() == codes


def test_codes_and_statuses_are_those_that_python_sees() -> None:
    kinds = [one for one in vars(errors).values() if isinstance(one, type)]
    ours = {one.code: one.status for one in kinds if issubclass(one, DocgraphError)}

    assert ours.items() <= find_raised().items()
    assert find_raised()["variable-not-bound"] == NotBound.status


def test_codes_that_are_handed_over_are_found(tmp_path: Path) -> None:
    (tmp_path / "some.py").write_text(
        'raise FieldFailure("no more of this", "all-gone")\n'
        'raise OperationRefused.because("wrong", code="quite-wrong")\n'
        'raise FieldFailure("wrong", f"odd-{name}")\n'
    )

    assert find_made(tmp_path) == {"all-gone", "quite-wrong", "odd-limit", "odd-skip"}


def test_a_code_that_nobody_has_described_stops_the_rendering(tmp_path: Path) -> None:
    (tmp_path / "some.py").write_text(
        'class Odd(DocgraphError):\n    status, code = 418, "odd-kettle"\n'
        "class DocgraphError(Exception):\n    pass\n"
    )

    with pytest.raises(ValueError, match="odd-kettle"):
        render(tmp_path)
