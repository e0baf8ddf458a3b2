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


FORMS = {
    "kempnerforge": "[rank 0] INFO     [step {0}] loss=5.65 | lr=3.00e-04 | mem=61.2/80GB | step_time=2.71s",
    "kempnerforge_in_colour": "\x1b[2m[rank 0]\x1b[0m \x1b[32mINFO    \x1b[0m [step {0}] loss=5.65 | lr=3.00e-04",
    "kempnerforge_under_srun": "0: [rank 0] INFO     [step {0}] loss=5.65 | lr=3.00e-04",
    "kempnerforge_stamped": "2026-05-12 10:14:02 [rank 0] INFO     [step {0}] loss=5.65 | lr=3.00e-04",
    "logging": "INFO:root:step {0} loss 5.65",
    "loguru": "2026-05-12 10:14:02.123 | INFO     | train:main:41 - step {0} loss=5.65",
    "structlog": "2026-05-12 10:14:02 [info     ] train_step             loss=5.65 step={0}",
    "nemo": "[NeMo I 2026-05-12 10:14:02 nemo_logging:393] Training epoch 0, iteration {0}/1999 | lr: 7.5e-05",
    "nemo_bar": "Epoch 0: :   1%|          | {0}/3600 [01:10<1:00:40, v_num=3, reduced_train_loss=10.30]",
    "lightning_bar": "Epoch 0:  10%|█         | {0}/5000 [00:10<01:40,  1.20it/s, v_num=3, train_loss=2.31]",
    "lightning_rich": "Epoch 0/9  ━━━━━━━━━━━━ {0}/5000 0:00:10 • 0:01:40 1.20it/s v_num: 3.000 train_loss: 2.310",
    "torchtitan": "[rank0]:[titan] 2026-05-12 10:14:02,123 - root - INFO - step: {0}  loss:  4.6637  tps: 1,420",
    "nanotron": "05/12/2026 10:14:02 [INFO|DP=0|PP=0|TP=0|node07]: iteration: {0} / 5000 | lm_loss: 10.9",
    "olmo": "2026-05-12 10:14:02.123\tnode07:0\tolmo.train:896\tINFO\t[step={0}/500000,epoch=0]",
    "verl": "(TaskRunner pid=123) step:{0} - actor/pg_loss:0.01 - timing_s/step:31.2",
}  # fmt: skip


@pytest.mark.parametrize("name", FORMS)
def test_a_step_is_read_in_every_format(name: str) -> None:
    found = diagnose("".join(f"{FORMS[name].format(step)}\n" for step in (10, 20, 30, 40)) + LIMIT)
    assert found.facts["last_step"] == 40


@pytest.mark.parametrize(
    "line",
    [
        "[rank 0] INFO     Starting training: step=0, max_steps=50000, batch_size=4",
        "[rank 0] INFO     Resumed from step 500, 262,144,000 tokens seen",
        "INFO - checkpoint of step 500 loaded, loss scale 65536",
        '{"step": 40, "event": "checkpoint saved"}',
    ],
)
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
