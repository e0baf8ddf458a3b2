"""`slurmdoctor lint`: each seeded mistake is found on its line, correct scripts are left in peace."""

import json
import re
import time
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from hypothesis import given, settings, strategies as st

from builders import raised
from slurmdoctor import LogText, diagnose
from slurmdoctor.cli import cli, hook
from slurmdoctor.knowledge import folders, load
from slurmdoctor.knowledge.expressions import names_of, placeholders
from slurmdoctor.model import UserError
from slurmdoctor.slurm.script import lint, mistakes, parse, step_outputs, wrong
from slurmdoctor.slurm.script.linter import evidence_of
from slurmdoctor.slurm.script.tables import Check, checks
from tables import parsed

HERE = Path(__file__).parent / "scripts"
EXPECTED: dict[str, str] = parsed((HERE / "expected.yaml").read_text())
CHECKS = checks()


@pytest.mark.parametrize("path", sorted(HERE.glob("*/*.sbatch")), ids=lambda p: p.stem)
def test_a_seeded_mistake_is_found_on_its_line_and_a_correct_script_is_left_in_peace(path: Path) -> None:
    found = lint(parse(path.read_text()))
    kept = [f"{m.check}:{m.line}" for m in found if m.level != "note" or path.parent.name != "wrong"]
    assert kept == EXPECTED.get(path.stem, "").split()
    assert wrong(found) == (path.parent.name == "wrong")  # a note is nothing wrong


def test_the_footer_in_a_script_is_not_the_scripts_own() -> None:
    head = "#!/bin/bash\n#SBATCH --signal=B:USR1@120\n"
    rest = "trap : 2 SIGHUP\ntrap - TERM\nsrun python train.py | tee log\n"
    bare, hooked = parse(head + rest), parse(head + hook.script("footer") + rest)
    assert [m.check for m in evidence_of(hooked).mistakes] == [m.check for m in evidence_of(bare).mistakes]
    assert "signal-not-handled" in {m.check for m in evidence_of(hooked).mistakes}
    assert hooked.traps.keys() == {"INT", "HUP"}
    assert hooked.commands[-1].line == len((head + hook.script("footer") + rest).splitlines())


@pytest.mark.parametrize("check", CHECKS, ids=lambda c: c.id)
def test_every_check_has_its_example(check: Check) -> None:
    assert check.bad
    assert [m.check for m in lint(parse(whole(check.bad)))].count(check.id) == 1
    if check.good:
        assert [m.check for m in lint(parse(whole(check.good))) if m.check != "not-checked"] == []


def whole(example: str) -> str:
    """An example with the first line that all scripts share, where it does not bring one."""
    return example if example.startswith(("#!", "\n", "slurm:")) else "#!/bin/bash\n" + example


def test_checks_name_known_causes_and_rules() -> None:
    knowledge = load(folders())
    known = {*knowledge.causes, *(rule.id for rule in knowledge.rules)}
    assert {cause for check in CHECKS for cause in check.causes} <= known


@pytest.mark.parametrize("check", CHECKS, ids=lambda c: c.id)
def test_every_check_asks_either_a_condition_or_a_list(check: Check) -> None:
    assert (check.when is None) != (check.each is None)
    assert check.each is None or callable(getattr(mistakes, check.each, None))
    for texts in (check.says, check.why, check.fix):
        for text in (texts,) if isinstance(texts, str) else texts:
            placeholders(text)
    if check.when is not None:
        names_of(check.when)


def test_every_list_serves_a_check() -> None:
    own = {name for name, one in vars(mistakes).items() if getattr(one, "__module__", "") == mistakes.__name__}
    lists = {name for name in own if not name.startswith("_")}
    assert lists - {"ignored_checks"} == {check.each for check in CHECKS if check.each}


def test_the_documentation_has_every_check() -> None:
    rows = (Path(__file__).parents[1] / "docs" / "lint.md").read_text().splitlines()
    told = [tuple(row.split(" | ")[:2]) for row in rows if row.startswith("| `")]
    assert told == [(f"| `{check.id}`", check.level) for check in CHECKS]


# ── scripts that are too much ────────────────────────────────────────────────────────────────

_HEAD = "#!/bin/bash\n#SBATCH -n4\n"
_TOO_MUCH = {
    "pipes": "a|" * 20_000,
    "blocks": "if true; then\n" * 1000 + "fi\n" * 1000,
    "ands": "a && " * 20_000,
    "one hundred words of 15 kB": ("srun " + "a" * 15_000 + "\n") * 100,
    "doubled": "A=x\n" + "A=$A$A\n" * 60 + "srun $A\n",
    "doubled array": "A=(x $SLURM_PROCID)\n" + 'A=("${A[@]}" "${A[@]}")\n' * 60 + 'srun "${A[@]}"\n',
    "brackets within brackets": "ls " + "+(" * 400 + "a" + "*)" * 400,
    "pipes in substitutions": "$(" * 40 + "a" + " | a)" * 40,
    "footers": "# --- slurmdoctor: \n" * 14_000,
    "comments": "# slurmdoctor: ignore\n" * 5_000 + "a \\\n" * 60_000,
    "what takes the grammar gigabytes": "`>!" * 5_000 + "do ",
}


@pytest.mark.slow
@pytest.mark.parametrize("text", _TOO_MUCH.values(), ids=_TOO_MUCH)
def test_a_script_that_is_too_much_costs_a_note(text: str) -> None:
    began = time.process_time()
    script = parse(_HEAD + text)
    found = lint(script)
    assert time.process_time() - began < 5
    assert script.cut is not None
    assert ("script-cut", script.cut) in {(m.check, m.line) for m in found}
    assert sum(len(command.piped_to) + len(command.words) for command in script.commands) < 2_000_000


def test_what_is_above_the_limit_is_read() -> None:
    script = parse(_HEAD + "srun python train.py | tee log\n" + "if true; then\n" * 1000 + "fi\n" * 1000)
    assert [m.check for m in lint(script)] == ["exit-status-in-pipe", "script-cut"]


_MANY = {
    "redirects": f"#SBATCH --signal=B:USR1@100\nsrun python x{' >>a' * 60} ; x\n",
    "monitors": "nvidia-smi dmon &\n" * 3600 + "wait\n",
    "monitors that are waited for": "nvidia-smi dmon & P=$!\nwait $P\n" * 1500,
    "variables of tasks": "#SBATCH -n 8\n" + "srun -n 1 ./a $SLURM_PROCID\nexport RANK=$SLURM_PROCID\n" * 900,
    "defaults without a dash": ("${aa:bb}" * 1500 + "\n") * 12,
    "comments": "#\n" * 100_000,
}


@pytest.mark.slow
@pytest.mark.parametrize("text", _MANY.values(), ids=_MANY)
def test_many_of_a_kind_do_not_multiply_the_time(text: str) -> None:
    began = time.process_time()
    lint(parse(f"#!/bin/bash\n{text}"))
    assert time.process_time() - began < 2


@pytest.mark.parametrize(("script", "note"), [("a|" * 20_000, "was read up to line 3"), ("\0" * 99, "it is no text")])
def test_no_script_costs_the_verdict(script: str, note: str, tmp_path: Path) -> None:
    (tmp_path / "job.log").write_text("ModuleNotFoundError: No module named 'flash_attn'\n")
    (tmp_path / "job.sbatch").write_text(_HEAD + script)
    logs = ["diagnose", str(tmp_path / "job.log"), "--format", "json"]
    found = [CliRunner().invoke(cli, [*logs, *more]) for more in ([], ["--script", str(tmp_path / "job.sbatch")])]
    bare, beside = (json.loads(one.stdout) for one in found)
    assert beside["cause"] == bare["cause"]
    assert note in beside["coverage"]["notes"][0]


def test_a_fault_of_ours_in_a_script_costs_a_note(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("slurmdoctor.slurm.script.linter.findings", lambda script: [1 / 0])
    found = diagnose(LogText("ModuleNotFoundError: No module named 'a'\n"), script=parse(_HEAD, "job.sbatch"))
    assert found.cause.id == "module-not-found"
    assert "job.sbatch was of no use: internal error, ZeroDivisionError" in found.coverage.notes[0]


@pytest.mark.parametrize("data", [b"\x80\x04\x95K\0}", b"\x89PNG\r\n\x1a\n", b"epoch 1 (loss 2.3)\nTraceback (most\n"])
def test_what_is_no_script_is_refused(data: bytes, tmp_path: Path) -> None:
    (tmp_path / "job.sbatch").write_bytes(data)
    run = CliRunner().invoke(cli, ["lint", str(tmp_path / "job.sbatch")])
    assert isinstance(run.exception, UserError)
    assert "script" in str(run.exception)


# ── the command ──────────────────────────────────────────────────────────────────────────────

HEAD = "#!/bin/bash\n#SBATCH --nodes=2 --ntasks-per-node=8 --gpus-per-node=8\n"
SECRET = "hf_" + "abcdefghijABCDEFGHIJ0123456789abcd"


def run(*args: str, script: str = "", **env: str) -> Result:
    return CliRunner(env={"COLUMNS": "100", **env}).invoke(cli, ["lint", *args], input=script)


def test_formats_and_exit_status() -> None:
    good, bad = str(HERE / "right" / "recipe.sbatch"), str(HERE / "wrong" / "port-54321.sbatch")
    assert (run(good).exit_code, run(good).output) == (0, "no problems found\n")
    text = run(bad)
    assert text.exit_code == 1
    assert "port-54321.sbatch:11: warning: the port 54321 is fixed [port-fixed]" in text.output
    assert "  why   " in text.output
    assert "  fix   Derive it from the job: `export MASTER_PORT=" in text.output
    assert text.output.endswith("\n\n1 warning\n")
    found = json.loads(run("--format", "json", good, bad).output)
    assert [f["wrong"] for f in found["files"]] == [False, True]
    assert found["files"][1]["findings"][0]["line"] == 11
    assert re.match(r"::warning file=.*,line=11,title=slurmdoctor port-fixed::", run("--format", "github", bad).output)
    assert run("/nonexistent").exit_code != 0
    assert run().exit_code == 2
    piped = run("-", script="#!/bin/bash\n#SBATCH -o $X/a\nsrun hostname\n")
    assert (piped.exit_code, "<stdin>:2: error" in piped.output) == (1, True)


@pytest.mark.parametrize("form", ["text", "json", "github"])
def test_a_secret_in_a_line_is_masked_in_quote_and_fix(form: str) -> None:
    script = f"{HEAD}#SBATCH --comment=$HOME/{SECRET}\nsrun python train.py\n"
    found = run("--format", form, "-", script=script)
    assert "variable-in-directive" in found.output
    assert SECRET[:12] not in found.output
    assert SECRET in run("--redact", "off", "--format", form, "-", script=script).output


def test_the_text_has_a_summary_colour_on_demand_and_whole_commands() -> None:
    script = f"{HEAD}export MASTER_PORT=29500\nsrun --rank $SLURM_PROCID python a.py --rank $SLURM_PROCID | tee log\n"
    plain = run("-", script=script, COLUMNS="60").output
    assert plain.endswith("\n\n1 error, 2 warnings\n")
    assert "`export MASTER_PORT=$((20000 + SLURM_JOB_ID % 20000))`" in plain
    whole = [line for line in plain.splitlines() if line.startswith(("        `", "<stdin>"))]
    assert all(len(line) <= 60 for line in plain.splitlines() if line not in whole)
    assert "\x1b[" not in plain
    assert "\x1b[1;31merror:" in run("-", script=script, FORCE_COLOR="1").output


# ── the parser ───────────────────────────────────────────────────────────────────────────────


def test_values_are_followed() -> None:
    text = '#SBATCH -N 2 --gpus-per-node=8\nG=$SLURM_GPUS_ON_NODE\nW=$((SLURM_NNODES * G))\nT="--tp $W"\n'
    text += "srun python a.py $T\n"
    command = next(c for c in parse(text).commands if c.name == "srun")
    assert command.args[-2:] == ("--tp", "16")


def test_step_outputs() -> None:
    text = "srun -o logs/%j-%t.out --error=logs/%j-%t.err python a.py\nsrun python b.py > run-$SLURM_JOB_ID.log 2>&1\n"
    assert step_outputs(parse(text)) == ["logs/%j-%t.out", "logs/%j-%t.err", "run-%j.log"]


@settings(max_examples=60, deadline=None)
@given(st.text(alphabet=st.sampled_from(list("srun bash-c\"'`$(){}<>|&;\\\n#=SBATCH%_12")), max_size=80))
def test_no_text_breaks_it(text: str) -> None:
    lint(parse(text))


@pytest.mark.parametrize(
    "text",
    [
        "",
        "\0" * 99,
        bytes(range(256)).decode("latin1") * 40,
        "(" * 3000,
        "bash -c '" * 999,
        "A=x\n" + 'A="$A$A"\n' * 40 + 'srun bash -c "$A"\n',
        "A='" + 'bash -c "$A"; ' * 300 + '\'\nsrun bash -c "$A"\n',
        "#SBATCH -N 2 --gpus-per-node=8\nsrun python a.py --tp 0 --ep 0 --etp 0 --micro-batch-size 0 --global-batch-size 5",
        "#SBATCH -n 4 --ntasks-per-node=0 --gpus=0\nsrun python a.py",
        "#SBATCH -N ² --ntasks-per-node=٣\nexport MASTER_PORT=²\nsrun python a.py --tp ² --master-port ²",
        "#SBATCH -N " + "9" * 5000 + "\nsrun python a.py --tp " + "9" * 5000,
        "srun python a.py\n" * 3000,
        "X=${Y:-None}\nsrun python a.py\n",
        "#SBATCH --time=" + "9" * 5000 + "\n#SBATCH --mem=" + "9" * 400 + "\nsrun python a.py\n",
        "#SBATCH --time=1-" + "9" * 400 + ":00\nset\nset -o\nsrun python a.py\n",
    ],
    ids=lambda t: repr(t[:24]),
)
def test_no_size_and_no_number_breaks_it(text: str) -> None:
    start = time.monotonic()
    lint(parse(text))
    assert time.monotonic() - start < 60


# ── sharpening a diagnosis ───────────────────────────────────────────────────────────────────

BATCH = "#!/bin/bash\n#SBATCH --nodes=2 --ntasks-per-node={tasks} --gpus-per-node=8\n"
GLOO = raised(
    "RuntimeError: [../third_party/gloo/gloo/transport/tcp/unbound_buffer.cc:81] Timed out waiting 1800000ms for recv "
    "operation to complete",
    "[rank6]: ",
)
NO_TORCH = raised("ModuleNotFoundError: No module named 'torch'", file="/scratch/demo/Megatron-LM/pretrain_gpt.py")
TAKEN = raised(
    "torch.distributed.DistNetworkError: The server socket has failed to listen on any local network address. "
    "port: 29500, useIpv6: false, code: -98, name: EADDRINUSE, message: address already in use"
)


@pytest.mark.parametrize(
    ("log", "tasks", "script", "first"),
    [
        (GLOO, 8, "export NCCL_SOCKET_IFNAME=ib0\nsrun python train.py\n", "GLOO_SOCKET_IFNAME=$NCCL_SOCKET_IFNAME"),
        (NO_TORCH, 1, "srun torchrun --standalone pretrain_gpt.py\n", "uv run python -m torch.distributed.run"),
        (TAKEN, 8, 'srun bash -c "torchrun --nproc_per_node=8 --nnodes=2 a.py"\n', "--ntasks-per-node=1"),
    ],
    ids=["gloo", "bare torchrun", "a launcher per task"],
)
def test_what_the_script_lacks_is_the_first_fix(log: str, tasks: int, script: str, first: str) -> None:
    found = diagnose(log, script=parse(BATCH.format(tasks=tasks) + script, "job.sbatch"))
    assert log is not TAKEN or found.cause.confidence == "high"
    assert found.fixes[0].do.startswith("job.sbatch:")
    assert first in found.fixes[0].do
    assert diagnose(log, script=parse("#!/bin/bash\nsrun hostname\n")).fixes == diagnose(log).fixes
