"""Damages logs at random and diagnoses each: never a crash, never invalid JSON, and one result by the C and by the Python twin.

`python tests/fuzz.py --logs 100000 --seed 1` tells what fell; a log's number and the seed make it again: `--only 4711`.
`--scripts 10000` damages batch scripts instead, and lints each: never a crash, never more than `SCRIPT_BUDGET` or `MEMORY`.
"""

import argparse
import json
import resource
import signal
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import cache
from pathlib import Path
from random import Random
from types import FrameType
from typing import Any
from unittest import mock
from unittest.mock import patch

import jsonschema

from slurmdoctor import Diagnosis, diagnose, pipeline
from slurmdoctor.input.sources import Text
from slurmdoctor.knowledge import folders, load
from slurmdoctor.matching import engine
from slurmdoctor.model import SearchResult, UserError
from slurmdoctor.readers import targets
from slurmdoctor.report import render, text_report as text
from slurmdoctor.search import scanner as scan
from slurmdoctor.search.literals import Literals
from slurmdoctor.slurm.script.linter import evidence_of, lint
from slurmdoctor.slurm.script.parser import parse
from slurmdoctor.slurm.script.plan import step_outputs
from slurmdoctor.slurm.script.tables import checks
from test_report_chat import assert_harmless

SMALLEST, LARGEST = 512, 8192
BUDGET = 2.0
"""CPU seconds for a log of a few KB: a hundred times as many as it takes."""
LARGEST_SCRIPT, SCRIPT_BUDGET = 1 << 20, 8.0
"""Bytes of a script, and CPU seconds for what is far above its limits."""
MEMORY = 1 << 20
"""KiB that the process may hold when all scripts are linted."""
_HERE = Path(__file__).parent
_SIDE = {"truth.yaml", "job.sbatch", "scontrol.txt", "sacct.txt", "README.md", "notes.md"}
_LABELS = (
    b"%d: ", b"[rank%d]: ", b"[default%d]:", b"[1,%d]<stderr>:", b"cn%03d: ", b"(Worker pid=%d) ",
    b"2026-11-21 09:00:%02d,123 ",
)  # fmt: skip
_BROKEN = (
    b"\xff\xfe\xc3\x28", b"\xed\xa0\x80", "\u202e\u2066é".encode(), b"\xef\xbb\xbf", b"\x1b[31m", b"\x1b]8;;",
    b"\x9b0m", b"\x7f\x08",
)  # fmt: skip
_NUMBERS = (
    b"0", b"-1", b"4294967296", b"9223372036854775808", b"9" * 400, b"9" * 5000, b"999999999", b"1e999",
    b"0x" + b"f" * 40, "١٢".encode(),
)  # fmt: skip
_JOINS = (b"\r", b"\r\n", b"\n\n", b"\n> ", b"\\n", b" ", b"\n\x00")


class Hang(BaseException):
    """A log took more than its budget: no handler of the program's may catch it."""


# ── damage ───────────────────────────────────────────────────────────────────────────────────


@cache
def _logs() -> list[bytes]:
    """What real jobs and the rules' authors wrote."""
    files = [f for folder in ("fixtures", "seed_logs") for f in sorted((_HERE / folder).rglob("*")) if f.is_file()]
    return [data for file in files if file.name not in _SIDE and (data := file.read_bytes()[: 1 << 20])]


@cache
def _examples() -> list[bytes]:
    known = load(folders())
    matches = [rule.match for rule in known.rules] + [signal.match for signal in known.signals]
    return [line.encode() for lines in matches for line in lines]


def _window(dice: Random) -> bytes:
    """Some lines of a log."""
    log = dice.choice(_logs())
    size = int(SMALLEST * (LARGEST / SMALLEST) ** dice.random())
    at = max(0, dice.randrange(len(log)) - size // 2)
    return log[log.rfind(b"\n", 0, at) + 1 :][:size]


def _place(data: bytes, dice: Random) -> int:
    """The start of some line."""
    return data.rfind(b"\n", 0, dice.randrange(len(data) + 1)) + 1


def _each_line(change: Callable[[bytes], bytes], data: bytes) -> bytes:
    return b"\n".join(map(change, data.split(b"\n")))


def _cut(data: bytes, dice: Random) -> bytes:
    return data[dice.randrange(len(data)) :] if dice.random() < 0.5 else data[: dice.randrange(1, len(data) + 1)]


def _splice(data: bytes, dice: Random) -> bytes:
    at = _place(data, dice)
    return data[:at] + _window(dice)[:2048] + data[at:]


def _example(data: bytes, dice: Random) -> bytes:
    at = _place(data, dice)
    return data[:at] + b"\n".join(dice.choices(_examples(), k=dice.randrange(1, 5))) + b"\n" + data[at:]


def _again(data: bytes, dice: Random) -> bytes:
    start, end = sorted((_place(data, dice), _place(data, dice)))
    return data[:end] + data[start:end] * dice.randrange(1, 9) + data[end:]


def _flip(data: bytes, dice: Random) -> bytes:
    changed = bytearray(data)
    for _ in range(dice.randrange(1, 20)):
        changed[dice.randrange(len(data))] ^= 1 << dice.randrange(8)
    return bytes(changed)


def _join(data: bytes, dice: Random) -> bytes:
    return data.replace(b"\n", dice.choice(_JOINS), dice.choice((-1, -1, 1, 5)))


def _holes(data: bytes, dice: Random) -> bytes:
    at = dice.randrange(len(data) + 1)
    return data[:at] + dice.choice((b"\0" * dice.randrange(1, 300), *_BROKEN)) + data[at:]


def _encode(data: bytes, dice: Random) -> bytes:
    return data.decode("utf-8", "replace").encode(dice.choice(("utf-16", "utf-16-le", "cp1252", "utf-7")), "replace")


def _label(data: bytes, dice: Random) -> bytes:
    label, ranks = dice.choice(_LABELS), dice.choice((1, 4, 64, 10**7))
    return _each_line(lambda line: label % dice.randrange(ranks) + line, data)


def _number(data: bytes, dice: Random) -> bytes:
    at = next((at for at in range(dice.randrange(len(data)), len(data)) if data[at : at + 1].isdigit()), len(data))
    return data[:at] + dice.choice(_NUMBERS) + data[at + 1 :]


def _mix(data: bytes, dice: Random) -> bytes:
    """The lines of two writers, as they came."""
    one, other = data.split(b"\n"), _window(dice).split(b"\n")
    mixed = []
    while one and other:
        mixed.append((one if dice.random() < 0.5 else other).pop(0))
    return b"\n".join(mixed + one + other)


def _shuffle(data: bytes, dice: Random) -> bytes:
    lines = data.split(b"\n")
    dice.shuffle(lines)
    return b"\n".join(lines)


def _hex(data: bytes, dice: Random) -> bytes:
    """Other words, addresses and quotes where some were: what a line's shape is made of."""
    word = dice.choice(
        (b"0x%x" % dice.getrandbits(48), b"%08x" % dice.getrandbits(32), b"'a b'", b"'", b'"x"', b"Error")
    )
    return data.replace(dice.choice(data.split() or [b" "]), word, 3)


_DAMAGE = (_cut, _splice, _example, _again, _flip, _join, _holes, _encode, _label, _number, _mix, _shuffle, _hex)


def made(seed: int, number: int) -> list[bytes]:
    """The files of one damaged job: mostly a single one."""
    dice = Random(f"{seed} {number}")
    files = []
    for _ in range(dice.choice((1, 1, 1, 1, 1, 1, 1, 2, 3))):
        data = _window(dice)
        for damage in dice.choices(_DAMAGE, k=dice.randrange(1, 5)):
            data = damage(data or b"\n", dice)[:LARGEST]
        files.append(data)
    return files


# ── scripts ──────────────────────────────────────────────────────────────────────────────────

_SHELL = r"""
a| |& a; & && || ( (( $( $(( ) )) { } } [[ ]] ` ' " $' $" \ # ! < > >> 2>&1 <<E <<<a <( >( ${ ${a:- ${a[@]} $a
$SLURM_PROCID a= a=( a+=(x) export@a= A=$A$A if@a;@then else elif fi; for@i@in while do done; case@a@in a) ;; esac;
f(){ function@f@{ [@a@]@&& srun sbatch bash@-c bash@-c@" bash@-c@' -c eval@" env@A=1 torchrun python trap@'a'@EXIT
wait kill@$! sleep@1& #SBATCH@-n1 #SBATCH@--signal=B:USR1@9 --output=%j >@o >>o --node_rank=$SLURM_NODEID
\$SLURM_PROCID uv@run uv@sync cd@/tmp cp@/tmp/a #@slurmdoctor:@ignore[ rm@nemo_experiments PYTHONPATH= exec set@-e
{a,b}
"""
"""What bash is made of; `@` is a blank."""


@cache
def _scripts() -> list[bytes]:
    """The repository's batch scripts, and the examples of the checks."""
    found = [file.read_bytes() for file in sorted(_HERE.rglob("*.sbatch"))]
    return found + [f"#!/bin/bash\n{text}".encode() for check in checks() for text in (check.bad, check.good) if text]


def _pieces(dice: Random) -> bytes:
    """Some of what bash is made of, some thousand times."""
    unit = " ".join(dice.choices(_SHELL.split(), k=dice.randrange(1, 4))).replace("@", " ").replace("\\n", "\n")
    unit = dice.choice((unit, unit.replace(" ", ""), f"{unit}\n"))
    return (unit * int(10 ** (dice.random() * 5) + 1)).encode()[: int(10 ** (2 + dice.random() * 4))]


def _repeat(data: bytes, dice: Random) -> bytes:
    at = dice.choice((_place(data, dice), dice.randrange(len(data) + 1), len(data)))
    return data[:at] + _pieces(dice) + data[at:]


def _nest(data: bytes, dice: Random) -> bytes:
    start, end = sorted((_place(data, dice), _place(data, dice)))
    opens, closes = dice.choice(
        ((b"if :; then\n", b"\nfi\n"), (b"(", b")"), (b"{ ", b"; }"), (b"$(", b")"), (b'"$(a ', b')"'))
    )
    deep = int(10 ** (dice.random() * 4))
    return data[:start] + opens * deep + data[start:end] + closes * dice.choice((deep, deep, deep - 1, 0)) + data[end:]


def _double(data: bytes, dice: Random) -> bytes:
    return data * dice.choice((2, 4, 16, 512))


_OF_SCRIPTS = (_cut, _again, _flip, _join, _holes, _number, _shuffle, _repeat, _repeat, _repeat, _nest, _nest, _double)


def made_script(seed: int, number: int) -> bytes:
    """A damaged batch script."""
    dice = Random(f"script {seed} {number}")
    data = dice.choice(_scripts())
    for damage in dice.choices(_OF_SCRIPTS, k=dice.randrange(1, 5)):
        data = damage(data or b"\n", dice)[:LARGEST_SCRIPT]
    return data


def linted(data: bytes) -> str:
    """What is wrong with the way that a script is read; empty where nothing is."""
    try:
        script = parse(data.decode("utf-8", "replace"), "job.sbatch")
        lint(script)
        evidence_of(script)
        step_outputs(script)
    except Hang:
        return f"more than {SCRIPT_BUDGET} s of CPU time"
    except Exception as error:
        return f"{type(error).__name__}: {error} ({_where(error)})"
    return ""


def run_scripts(seed: int, numbers: Sequence[int]) -> list[tuple[int, str]]:
    """(number, what is wrong) of each damaged script on which lint fell."""
    made_ones = ((number, made_script(seed, number)) for number in numbers)
    fell = [(number, wrong) for number, data in made_ones if (wrong := _in_time(SCRIPT_BUDGET, linted, data))]
    held = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return [*fell, (numbers[-1], f"{held >> 10} MiB held")] if held > MEMORY else fell


def _in_time(budget: float, work: Callable[..., str], *given: Any) -> str:
    before = signal.signal(signal.SIGPROF, _over)
    try:
        signal.setitimer(signal.ITIMER_PROF, budget)
        return work(*given)
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


# ── diagnosis ────────────────────────────────────────────────────────────────────────────────


@contextmanager
def _by_itself() -> Iterator[list[str]]:
    """Each search is made again by the Python twin, in blocks of another size; yields what differed.

    What depends on the rules alone is made once.
    """
    knowledge = load(folders(), examples=False)
    with mock.patch.object(engine, "native", None):
        python = Literals(knowledge.once(targets.matchers))
    differences: list[str] = []

    def of_python(_: Any) -> Literals:
        return python

    def search(sources: Any, *rest: Any) -> SearchResult:
        found = targets.find_lines(sources, *rest)
        again = [Text.source(source.read(0, source.length), source.name) for source in sources]
        with (
            patch.object(targets, "_literals_of", of_python),
            patch.object(scan, "BLOCK", 512 + 1009 * sum(source.length % 7 for source in sources)),
        ):
            slow = targets.find_lines(again, *rest)
        for source, other in zip(sources, again, strict=True):
            if source.lines != other.lines:
                differences.append(f"{source.lines} lines by C, {other.lines} by Python")
        fast_told, slow_told = _told(found), _told(slow)
        differences.extend(f"by C {a}, by Python {b}" for a, b in zip(fast_told, slow_told, strict=False) if a != b)
        if len(fast_told) != len(slow_told):
            differences.append(f"{len(fast_told)} groups by C, {len(slow_told)} by Python")
        return found

    with ExitStack() as stack:
        stack.enter_context(patch.object(pipeline, "current", lambda *_, **__: knowledge))
        stack.enter_context(patch.object(pipeline, "find_lines", search))
        yield differences


def _told(found: SearchResult) -> list[Any]:
    return [(g.matcher.id, g.kind, [(w, g.sample(w)) for w in g.by_first()], g.by_last_burst(3)) for g in found.groups]


@cache
def _validator() -> Any:
    schema = json.loads((Path(pipeline.__file__).parent / "report" / "schema.json").read_text(encoding="utf-8"))
    return jsonschema.validators.validator_for(schema)(schema)


def assert_sound(found: Diagnosis) -> None:
    """Every format can be made, is valid, and holds nothing that it must not."""
    told, said = render(found, "json"), render(found, "markdown")
    _validator().validate(json.loads(told))
    assert_harmless(said, quotes="```" in said)
    message = json.loads(render(found, "slack"))
    assert len(message["text"]) <= 3000
    assert len(json.dumps(message["blocks"])) <= 12_000
    for out in (told, said, text.render_text(found, width=80, colour=False, context=50, ranks=True)):
        out.encode()
        assert not any((ord(c) < 32 and c not in "\t\n") or 0x7F <= ord(c) < 0xA0 for c in out)
    render(found, "html").encode()


def examined(files: Sequence[bytes], differences: list[str]) -> str:
    """What is wrong with the answer on these files; empty where nothing is."""
    differences.clear()
    try:
        assert_sound(diagnose([Text.source(data, f"log{number}") for number, data in enumerate(files)]))
    except UserError as error:
        return "" if str(error) and "\n" not in str(error) else f"an error of several lines: {error}"
    except Hang:
        return f"more than {BUDGET} s of CPU time"
    except Exception as error:
        return f"{type(error).__name__}: {error} ({_where(error)})"
    return differences[0] if differences else ""


def _where(error: Exception) -> str:
    frames = []
    trace = error.__traceback__
    while trace is not None:
        frames.append(f"{Path(trace.tb_frame.f_code.co_filename).name}:{trace.tb_lineno}")
        trace = trace.tb_next
    return " ".join(frames[-3:])


def _over(signum: int, frame: FrameType | None) -> None:
    raise Hang


def run(seed: int, numbers: Sequence[int]) -> list[tuple[int, str]]:
    """(number, what is wrong) of each damaged log on which the program fell."""
    with _by_itself() as differences:
        made_ones = ((number, made(seed, number)) for number in numbers)
        told = ((number, _in_time(BUDGET, examined, files, differences)) for number, files in made_ones)
        return [(number, wrong) for number, wrong in told if wrong]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--logs", type=int, default=1000, help="how many")
    parser.add_argument("--scripts", type=int, help="how many batch scripts, instead of logs")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", type=int, help="this log (or script) alone, written to fuzzed.0.log and on")
    given = parser.parse_args()
    if given.only is not None:
        files = made(given.seed, given.only) if not given.scripts else [made_script(given.seed, given.only)]
        for n, data in enumerate(files):
            Path(f"fuzzed.{n}.log").write_bytes(data)
    kind, work = ("scripts", run_scripts) if given.scripts else ("logs", run)
    numbers = range(given.scripts or given.logs) if given.only is None else [given.only]
    shares = [numbers[at : at + 1000] for at in range(0, len(numbers), 1000)]
    began, fell, done = time.process_time(), 0, 0
    for found in (work(given.seed, share) for share in shares):
        done, fell = done + 1, fell + len(found)
        print(
            f"{min(done * 1000, len(numbers))} {kind}, {fell} fell, {time.process_time() - began:.0f} s CPU", flush=True
        )
        for number, wrong in found:
            print(f"  --seed {given.seed} --only {number}: {wrong[:600]}", flush=True)
    return 1 if fell else 0


if __name__ == "__main__":
    sys.exit(main())
