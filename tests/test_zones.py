"""Times are counted in the log's own zone, and shown as it wrote them."""

from datetime import datetime

import pytest
from hypothesis import given, settings, strategies as st

from builders import raised
from slurmdoctor import diagnose
from slurmdoctor.model import JobRecord, format_time, zone_of
from slurmdoctor.ranks.labels import parse_time
from slurmdoctor.report import text_report as text

KEY = raised()
LIMIT = "slurmstepd: error: *** JOB 88213 ON gpu01 CANCELLED AT 2026-05-12T14:34:00 DUE TO TIME LIMIT ***\n"


def shown(log: str) -> tuple[str | None, str]:
    """The JSON's time, and the report's first place."""
    found = diagnose(log)
    return found.first_failure.time, text.render_text(found, width=100, colour=False).splitlines()[1]


@pytest.mark.parametrize(
    ("stamp", "time", "clock"),
    [
        ("2026-05-12T11:32:00+08:00", "2026-05-12T11:32:00+08:00", "11:32:00+08:00"),
        ("2026-05-12 11:32:00,123+0800", "2026-05-12T11:32:00+08:00", "11:32:00+08:00"),
        ("2026-05-12T11:32:00.5-05:30", "2026-05-12T11:32:00-05:30", "11:32:00-05:30"),
        ("2026-05-12T11:32:00.123Z", "2026-05-12T11:32:00+00:00", "11:32:00Z"),
        ("2026-05-12 11:32:00,123", "2026-05-12T11:32:00", "11:32:00"),
        ("May 12 11:32:00", None, "11:32:00"),
    ],
)
def test_a_time_is_shown_as_the_log_wrote_it(stamp: str, time: str | None, clock: str) -> None:
    for log in (f"{stamp} INFO start\n{stamp} ERROR stopped\n{KEY}", f"{stamp} ERROR KeyError: 'x'\n" + KEY):
        told, place = shown(log)
        assert told == time
        assert place.endswith(f"  {clock}")
    assert time is None or datetime.fromisoformat(time)


def test_the_clock_of_date_lines_has_their_zone() -> None:
    lines = [f"2026-05-12T{10 + n // 30}:{2 * n % 60:02}:00+08:00\niter {n} step {n}: loss 2.1\n" for n in range(60)]
    assert shown("".join(lines) + KEY) == ("2026-05-12T11:58:00+08:00", "  <text>:124  11:58:00+08:00")


def test_slurms_lines_without_a_zone_are_of_the_logs_own() -> None:
    """The stall lasted from 11:12 to 14:34, not from 03:12."""
    lines = [f"2026-05-12T{10 + n // 30}:{2 * n % 60:02}:00+08:00\n" for n in range(130)]
    for n in range(36):
        lines[n] += f"iter {n} step {n}: loss 2.1\n"
    found = diagnose("".join(lines) + LIMIT)
    assert found.cause.id == "hang"
    assert found.facts["stalled_since"] == "2026-05-12T11:10:00"
    assert any("3 h 24 m" in reason for reason in found.reasons)


def test_a_local_log_with_one_stamp_in_utc_stays_local() -> None:
    log = "2026-05-12T03:31:00Z wandb: synced\n"
    log += "".join(f"2026-05-12 11:31:{n:02} INFO step {n}\n" for n in range(40))
    assert shown(f"{log}2026-05-12 11:32:00 ERROR stopped\n{KEY}") == ("2026-05-12T11:32:00", "  <text>:46  11:32:00")


@pytest.mark.parametrize(("stamp", "seconds"), [("Z", 0), ("+08:00", 28800), ("-0530", -19800)])
def test_zones(stamp: str, seconds: int) -> None:
    assert zone_of(stamp) == seconds
    local = parse_time(f"2026-05-12T11:32:00{stamp}", zone=seconds)
    assert local == parse_time("2026-05-12T11:32:00")
    assert local is not None
    assert format_time(local[0], True, f"at 2026-05-12T11:32:00{stamp} it", seconds) is not None


def test_the_year_of_a_stamp_without_one_is_that_of_the_jobs_record() -> None:
    log = "May 12 11:32:00 n1 train: ERROR KeyError: 'x'\n" + KEY
    started = parse_time("2026-05-12T11:00:00")
    assert started is not None
    assert diagnose(log).first_failure.time is None
    assert diagnose(log, record=JobRecord("7", start=started[0])).first_failure.time == "2026-05-12T11:32:00"
    # what the log says itself goes before it
    later = f"2027-01-02T00:00:00 INFO start\n{log}"
    assert diagnose(later, record=JobRecord("7", start=started[0])).first_failure.time == "2027-05-12T11:32:00"


@given(
    year=st.integers(0, 9999), month=st.integers(0, 13), day=st.integers(0, 32), hour=st.integers(0, 25),
    minute=st.integers(0, 61), zone=st.sampled_from(["", "Z", "+14:00", "-1200", "+99:99"]),
    form=st.sampled_from(
        [
            "{y:04}-{m:02}-{d:02}T{H:02}:{M:02}:07{z} ", "[{y:04}-{m:02}-{d:02} {H:02}:{M:02}:07,123] ", "{H:02}:{M:02}:07 ",
            "I{m:02}{d:02} {H:02}:{M:02}:07.5 12 a.py:1] ", "[May {d} {H:02}:{M:02}:07 {y:04}] ",
            "{y:04}-{m:02}-{d:02}T{H:02}:{M:02}:07{z} [rank3]: ",
        ]
    ),
)  # fmt: skip
@settings(max_examples=60, deadline=None)
def test_a_time_is_iso_8601_or_null_whatever_the_stamps(
    year: int, month: int, day: int, hour: int, minute: int, zone: str, form: str
) -> None:
    stamp = form.format(y=year, m=month, d=day, H=hour, M=minute, z=zone)
    later = form.format(y=9999, m=12, d=31, H=23, M=59, z="-12:00")
    said = diagnose(f"{stamp}INFO start\n{stamp}ERROR KeyError: 'x'\n{later}{KEY}").to_dict()
    first = said["first_failure"]
    for item in (first, *said["evidence"], *(item["first"] for item in said["cascade"])):
        if item["time"] is not None:
            assert datetime.fromisoformat(item["time"]).isoformat() == item["time"]
            assert item["time"].partition("T")[2] == item["clock"]
