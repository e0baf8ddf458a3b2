"""Order and attempts: what came first, which try the verdict is about, and what was survived."""

import pytest

from slurmdoctor import Diagnosis, diagnose

pytestmark = pytest.mark.usefixtures("golden_verdicts")

TRACE = 'Traceback (most recent call last):\n{0}  File "/opt/demo/fit.py", line 9, in <module>\n{0}    main()'
AGENT = "torch/distributed/elastic/multiprocessing/api.py:874]"


def raised(head: str, error: str) -> str:
    return f"{head}{TRACE.format(head)}\n{head}{error}\n"


def cause(found: Diagnosis) -> str | None:
    return found.cause.id


@pytest.mark.parametrize(
    ("early", "late"),
    [
        ("2026-05-01 10:00:05,000 ERROR ", "2026-05-01 10:00:09,000 ERROR "),
        ("2026-05-01T10:00:05.1Z ", "2026-05-01T10:00:09.1Z "),
        ("2026-05-01T12:00:05+02:00 ", "2026-05-01T10:00:09+00:00 "),
        ("[2026-05-01 10:00:05,000] [ERROR] ", "[2026-05-01 10:00:09,000] [ERROR] "),
        ("[E501 10:00:05.000000000 fit.cpp:1] ", "[E501 10:00:09.000000000 fit.cpp:1] "),
        ("E0501 10:00:05.000000 411 fit.py:1] ", "E0501 10:00:09.000000 411 fit.py:1] "),
        ("May 01 10:00:05 ", "May 01 10:00:09 "),
    ],
)
def test_stamps_of_every_style_order_what_the_file_does_not(early: str, late: str) -> None:
    log = f"1: {late}ERROR stopped\n" + raised("1: ", "KeyError: 'b'")
    log += f"0: {early}ERROR stopped\n" + raised("0: ", "FileNotFoundError: [Errno 2] No such file or directory: '/a'")
    found = diagnose(log)
    assert found.coverage.order == "timestamps"
    assert (cause(found), found.first_failure.rank) == ("file-not-found", 0)


def test_stamps_without_a_year_take_it_from_the_log() -> None:
    log = "0: 2025-12-31 23:59:00,000 INFO begin\n1: x\n0: [E1231 23:59:10.000000000 fit.cpp:1] ERROR stopped\n"
    found = diagnose(log + raised("0: ", "KeyError: 'a'"))
    assert found.first_failure.time == "2025-12-31T23:59:10"
