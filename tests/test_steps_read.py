"""Training steps: of millions the few are read that say who went on and whether the job stood still; of few all."""

import time
from collections import Counter
from collections.abc import Iterator
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

import hostile
from builders import LIMIT, step as made_step
from slurmdoctor import diagnose
from slurmdoctor.knowledge import folders, load
from slurmdoctor.matching.patterns import captures
from slurmdoctor.model import JobRecord, RankMap
from slurmdoctor.ranks.excerpts import Excerpts
from slurmdoctor.readers import steps
from slurmdoctor.timeline.ordering import learn_clocks
from tables import table

MB = 1024 * 1024
BARS = ("steps-of-ranks", "bars-worded", "bars-of-ranks", "loss-dicts-worded")
FAILURE = b"\n[rank3]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.\n"
WORK: Counter[str] = Counter()


class _Walked(bytes):
    """Bytes that count how many of them are walked."""

    def rfind(self, *what: Any) -> int:
        found = super().rfind(*what)
        WORK["walked"] += (what[2] if len(what) > 2 else len(self)) - max(found, what[1] if len(what) > 1 else 0)
        return found

    def find(self, *what: Any) -> int:
        found = super().find(*what)
        end = what[2] if len(what) > 2 else len(self)
        WORK["walked"] += (end if found < 0 else found) - (what[1] if len(what) > 1 else 0)
        return found


@pytest.fixture
def work(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """Lines that were looked at and read for steps, and the bytes that were walked for it."""
    WORK.clear()
    for owner, name in ((steps.StepLines, "form"), (Excerpts, "line")):
        plain = getattr(owner, name)

        def call(*given: Any, plain: Any = plain, name: str = name) -> Any:
            WORK[name] += 1
            return plain(*given)

        monkeypatch.setattr(owner, name, call)
    monkeypatch.setattr(Excerpts, "text", lambda self, *what: _Walked(self.sources[what[0]].read(*what[1:])))
    return WORK


@pytest.mark.slow
@pytest.mark.parametrize("kind", BARS)
def test_steps_of_any_kind_cost_little_and_never_more_than_their_bytes(kind: str, work: Counter[str]) -> None:
    data = hostile.KINDS[kind]()
    spent = []
    for size in (MB // 2, 2 * MB):
        work.clear()
        diagnose(data[:size] + FAILURE, rank_timelines=False)
        spent.append(Counter(work))
    assert spent[0]["form"] > 0
    assert spent[1]["form"] <= steps.WORK // 2
    assert spent[1]["line"] <= steps.WORK // 4
    assert spent[1]["walked"] <= 32 * MB
    assert all(spent[1][name] <= 5 * spent[0][name] + 1000 for name in spent[1])


@pytest.mark.parametrize("end", ["\n", "\r"])
def test_a_failure_behind_megabytes_of_bars_is_found_with_the_last_step(end: str) -> None:
    bars = end.join(f"{n % 100:3}%|####      | {n}/30000 [00:01<00:09, 1.{n % 100:02}it/s]" for n in range(8_000))
    found = diagnose(bars.encode() + FAILURE)
    assert (found.cause.id, found.facts["last_step"]) == ("cuda-oom", 7_999)


def test_each_rank_that_made_a_step_is_known_however_many_there_are() -> None:
    lines = [f"[rank{rank}]: step {n} loss 2.5" for n in range(1, 3) for rank in range(600)]
    found = diagnose("\n".join(lines).encode() + FAILURE)
    silent = next(group for group in found.ranks if group.standing == "silent")
    assert len(silent.ranks) == 599


START = datetime(2026, 11, 20, tzinfo=timezone.utc)


def run(steps: int, every: int, pad: int) -> tuple[str, JobRecord]:
    """A job with a pause of ten minutes at every so many steps that Slurm ended twenty minutes after its last one."""
    now, lines = START, []
    for n in range(1, steps + 1):
        now += timedelta(seconds=1 + (600 if n % every == 0 else 0))
        lines.append(f"{now:%Y-%m-%d %H:%M:%S},000 INFO step {n}/900000 loss 2.5 {'x' * pad}")
    now += timedelta(seconds=1200)
    lines.append(LIMIT.replace("2026-11-20T12:41:09", f"{now:%Y-%m-%dT%H:%M:%S}"))
    record = JobRecord("4711", state="TIMEOUT", start=START.timestamp(), elapsed=round((now - START).total_seconds()))
    return "\n".join(lines), record


@pytest.mark.parametrize("pad", [20, 500], ids=["1 MB", "10 MB"])
@pytest.mark.parametrize(("every", "cause"), [(5000, "time-limit"), (99_999, "hang")])
def test_among_steps_that_are_not_read_a_pause_is_found_and_none_is_made_up(every: int, cause: str, pad: int) -> None:
    log, record = run(17_000, every, pad)
    assert diagnose(log, record=record).cause.id == cause


def test_logs_whose_last_steps_were_not_all_read_are_told(tmp_path: Path) -> None:
    for n in range(700):
        steps = "".join(f"{hostile.word(9 * n + k)}: 10%|#  | {k}/9 [00:01<00:09, 1.00it/s]\n" for k in range(8))
        (tmp_path / f"rank_{n}.log").write_text(steps)
    assert "last training steps of" in str(diagnose(tmp_path).coverage.notes)


def test_the_names_of_thousands_of_logs_are_compared_once_not_for_each_step() -> None:
    class Names(list[str]):
        read = 0

        def __iter__(self) -> Iterator[str]:
            self.read += 1
            return super().__iter__()

    names = Names(f"rank_{n}.log" for n in range(100))
    steps = [replace(made_step(n, n * 10.0), source=n % 100) for n in range(1000)]
    assert learn_clocks(steps, RankMap(), names).ahead == {}
    assert names.read < 5


def test_bars_joined_by_carriage_returns_have_not_lost_their_line_ends() -> None:
    bars = "\r".join(f"[rank{n % 8}]: Epoch 3: 10%|#  | {n}/900 [00:01<00:09, 1.00it/s]" for n in range(900))
    assert diagnose(bars + "\n").coverage.notes == ()


LINES = table("step_lines")


@pytest.mark.parametrize("form", LINES["steps"].values(), ids=LINES["steps"])
def test_a_step_is_read_in_every_format(form: str) -> None:
    found = diagnose("".join(f"{form.format(step)}\n" for step in (10, 20, 30, 40)) + LIMIT)
    assert found.facts["last_step"] == 40


@pytest.mark.parametrize("line", LINES["no-steps"])
def test_what_only_names_a_step_is_none(line: str) -> None:
    assert diagnose(f"{line}\n{LIMIT}").facts.get("last_step") is None


def test_a_step_of_sixty_metrics_is_soon_seen_to_be_no_bar() -> None:
    metrics = " - ".join(f"training/rollout_{number}/mean:{number}.5" for number in range(60))
    line = f"(TaskRunner pid=123) step:40 - {metrics} - timing_s/step:31.2"
    assert 1800 < len(line) < 4096
    for signal in load(folders([]), examples=False).signals:
        if signal.kind == "progress":
            captures(signal.regex, line)  # compiled, and no more of that
            began = time.thread_time()
            for _ in range(5):
                captures(signal.regex, line)
            assert time.thread_time() - began < 5 * 0.004, signal.id
