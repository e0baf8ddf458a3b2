"""A collector's stamp before each line (kubectl, docker, ts) hides no label behind it."""

from __future__ import annotations

import pytest

import slurmdoctor
from slurmdoctor.knowledge import builtin, load
from slurmdoctor.model import SourceFormat
from slurmdoctor.search.writer_key import WriterKey

pytestmark = pytest.mark.usefixtures("golden_verdicts")

JOB = [
    *(f"{rank}: step {step} loss 2.{step} lr 1e-4" for step in range(3) for rank in range(4)),
    "3: Traceback (most recent call last):",
    '3:   File "/code/train.py", line 9, in <module>',
    "3:     data[key]",
    "3: KeyError: 'labels'",
    "1: [rank1]: RuntimeError: [../third_party/gloo/gloo/transport/tcp/pair.cc:534] Connection closed by peer [10.0.0.4]:4242",
]
STAMPS = {
    "kubectl": "2026-05-04T10:00:{:02d}.123456789Z ",
    "docker": "2026-05-04T10:00:{:02d}.123456789+02:00 ",
    "ts": "May  4 10:00:{:02d} ",
    "script": "[10:00:{:02d}] ",
}


@pytest.mark.parametrize("stamp", STAMPS.values(), ids=STAMPS)
def test_the_rank_is_read_behind_the_stamp(stamp: str) -> None:
    log = "".join(f"{stamp.format(n)}{line}\n" for n, line in enumerate(JOB))
    found = slurmdoctor.diagnose(log).to_dict()
    assert found["cause"]["id"] == "python-error"
    assert found["first_failure"]["rank"] == 3


def test_a_number_behind_a_programs_own_stamp_is_no_label() -> None:
    log = "".join(f"2026-05-04 10:00:{n:02d} {n}: sample done\n" if n % 3 else f"sample {n}\n" for n in range(30))
    found = slurmdoctor.diagnose(log + "2026-05-04 10:01:00 7: bad\nKeyError: 'x'\n").to_dict()
    assert (found["first_failure"] or {}).get("rank") is None


def test_two_writers_behind_stamps_are_told_apart() -> None:
    key = WriterKey(load([builtin()]).formats, SourceFormat(frozenset({"srun-label"}), stamped=True))
    assert key(b"2026-05-04T10:00:01Z  3: KeyError") == key(b"2026-05-04T10:00:02Z  3: x") == b"3:"
    assert key(b"2026-05-04T10:00:02Z [1,12]<stderr>:KeyError") == key(b"[1,12]<stdout>:x") == b"[1,12]"
