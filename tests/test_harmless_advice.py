"""No text of ours tells anyone to delete, move, kill or cancel what a log names: a log may name anything."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from slurmdoctor import diagnose

ROOT = Path(__file__).parents[1]
NOT_ADVICE = {
    "regex", "literals", "examples", "samples", "source", "pattern", "match", "no_match", "bad", "good", "when",
}  # fmt: skip
"""Keys of rule files whose values are what programs print or scripts say, not what we say."""
COMMAND = (
    r"(?<![\w./$-])(?:(?:rm|rmdir|unlink|mv|p?kill|killall|skill|scancel|truncate|dd|shred|wipefs|mkfs\S*|umount|ipcrm|reboot|shutdown"
    r"|rmtree|os\.remove)\b|fuser\b[^`]* -k|fusermount\S* -u|ch(?:mod|own|grp)\b[^`]* -\w*R|find\b[^`]* -(?:delete|exec)|xargs\b"
    r"|git\b[^`]* (?:clean|reset|checkout|restore|rm)|(?:docker|podman|enroot)\b[^`]* (?:rm|rmi|kill|stop|remove|prune)|rsync\b[^`]* --delete"
    r"|scontrol\b[^`]* (?:update|requeue\w*|hold|suspend|reboot|delete|cancel_reboot)|sinfo\b[^`]* state=|sacctmgr\b[^`]* (?:delete|modify|add)|systemctl\b"
    r"|nvidia-smi\b[^`]* (?:--gpu-reset|-r|-mig)|(?:pip|conda|mamba|uv)\b[^`]* (?:uninstall|remove|clean|prune))(?![\w-])"
)
HOLE = r"(?<!\{)\{(?!\{)[^{}]*\}"
SPAN = re.compile(r"`[^`]+`")
REDIRECT = re.compile(rf"(?<=[\s\d])>>?\s*[^\s`]*{HOLE}")
PROSE = re.compile(
    rf"(?i)\b(?:delete|remove|erase|wipe|empty|purge|move|overwrite|kill|cancel|end|stop)\b(?: (?:the|this|its|process|folder|file|job|node))* ?[`']?{HOLE}"
)
OURS = (
    "scancel {job_id}",
    "kill -{signal} $PID",  # of the script's own process: a signal's name
    "emove `{option}`", "Remove `{written}`", "Move `{assignment}` into", "the kill in line {kill}", "Move {option} from", "Move `{unpicklable}` to the top level",
    "Do not replace or remove {path}",
)  # fmt: skip
"""The job's own id; words of a command line or of the program's source; a warning."""


def dangerous(text: str) -> bool:
    """Whether a template deletes, moves, kills or cancels by a value that is filled in."""
    for own in OURS:
        text = text.replace(own, "")
    spans = [span for span in SPAN.findall(text) if re.search(HOLE, span)]
    bare = SPAN.sub("``", text)
    return (
        any(re.search(COMMAND, span) or REDIRECT.search(span) for span in spans)
        or re.search(rf"{COMMAND} [^;|&.]*{HOLE}", bare) is not None
        or PROSE.search(text) is not None
    )


def of_rules() -> Iterator[tuple[str, str]]:
    def walk(value: Any) -> Iterator[str]:
        if isinstance(value, str):
            yield value
        elif isinstance(value, list):
            for one in value:
                yield from walk(one)
        elif isinstance(value, dict):
            for key, one in value.items():
                yield from walk(one) if key not in NOT_ADVICE else ()

    for file in sorted((ROOT / "rules").rglob("*.yaml")):
        for text in walk(yaml.load(file.read_text(), Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))):
            yield file.name, text


def of_python() -> Iterator[tuple[str, str]]:
    for file in sorted((ROOT / "src/slurmdoctor").rglob("*.py")):
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.JoinedStr):
                parts = [part.value if isinstance(part, ast.Constant) else "{value}" for part in node.values]
                yield file.name, "".join(map(str, parts))
            elif isinstance(node, ast.Constant) and isinstance(node.value, str) and "(?" not in node.value:
                yield file.name, node.value


def of_hooks() -> Iterator[tuple[str, str]]:
    for file in (ROOT / "src/slurmdoctor/cli/templates").iterdir():
        for line in file.read_text().splitlines():
            yield file.name, f"`{re.sub(r'@[A-Z]+@', '{value}', line)}`" if "@" in line else line


@pytest.mark.parametrize("texts", [of_rules, of_python, of_hooks])
def test_no_template_destroys_what_a_log_names(texts: Any) -> None:
    found = list(texts())
    assert len(found) > 50
    assert [(file, text) for file, text in found if dangerous(text)] == []


@pytest.mark.parametrize(
    "text",
    [
        "remove it first (`rm -rf {old}`)", "Run `srun -w {node} rm -rf /tmp/cache`.", "`kill -9 {pid}`", "`find {folder} -name x -delete`",
        "`cat a > {file}`", "`scancel {other}`", "`nvidia-smi -i {gpu} --gpu-reset`", "`scontrol update nodename={node} state=down`",
        "Delete {path}, then start again.", "`git -C {path} clean -fdx`", "`chmod -R 777 {path}`", "`docker rm -f {name}`", "`mv {a} {b}`",
        "Kill process {pid}.", "`fuser -k {port}/tcp`", "`umount {path}`", "rm -rf {path} # in the epilog", "`ls {path} | xargs rm`",
    ],
)  # fmt: skip
def test_the_check_sees(text: str) -> None:
    assert dangerous(text)


@pytest.mark.parametrize(
    "text",
    [
        "`scancel {job_id}`", "`ls {path}`", "`rm -rf ~/.triton/cache`", "`cleanup() {{ kill \"$PID\"; }}`, which kept job {job_id} alive",
        "`sbatch --exclude={node}`", "the kernel killed process {pid}", "`sacct -j {job_id} -o State > state.txt`",
    ],
)  # fmt: skip
def test_the_check_lets_pass(text: str) -> None:
    assert not dangerous(text)


def test_a_healthy_log_chooses_no_folder_to_delete() -> None:
    """The path of one line, and the words of another, were once joined into `rm -rf` of a model."""
    log = (
        "successfully loaded checkpoint from nemo_experiments/default/checkpoints [ t 1/2, p 1/1 ] at iteration 0\n"
        "Resuming from /shared/pretrained/llama-70b/step_500\ntraining finished\n"
    )
    found = diagnose(log)
    assert found.verdict == "no-failure"
    assert "no training step was made" in found.reasons[0]
    assert not re.search(r"\brm\b|\bremove\b", " ".join(found.reasons))
