"""What a log shows counts, though its end is missing: a cut table, a cut traceback, a restart that got no further."""

import pytest

from slurmdoctor import diagnose
from tables import table

pytestmark = pytest.mark.usefixtures("golden_verdicts")

CASES = table("cut_logs")["cases"]


@pytest.mark.parametrize("name", CASES)
def test_what_the_log_shows_counts(name: str) -> None:
    expected = {"verdict": "failed", **CASES[name]}
    found = diagnose("".join(expected.pop("log")))
    first, end = found.first_failure, found.exit
    shown = {"code": end.code, "signal": end.signal, "rank": first.rank, "node": first.node}
    shown |= {"verdict": found.verdict, "cause": found.cause.id, "confidence": found.cause.confidence}
    assert shown == {**shown, **expected}
