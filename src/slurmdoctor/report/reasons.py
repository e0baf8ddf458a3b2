"""The sentences for the codes of inference's reasons."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from slurmdoctor.model.finding import Reason
from slurmdoctor.model.ranges import ranges
from slurmdoctor.report.exits import exit_words
from slurmdoctor.report.frames import frames
from slurmdoctor.report.quantities import duration
from slurmdoctor.report.unread import UNREAD
from slurmdoctor.report.waits import WAITS, names_of

Values = Mapping[str, Any]


def sentence(reason: Reason) -> str:
    """What a reason says, in a sentence without a full stop."""
    words = _SENTENCES[reason.code]
    return words.format_map(reason.values) if isinstance(words, str) else words(reason.values)


def sentences(reasons: Iterable[Reason]) -> str | None:
    """Several reasons in one sentence; None for none."""
    return "; ".join(map(sentence, reasons)) or None


# ── words that several sentences share ───────────────────────────────────────────────────────


def _first_by(order: str, aligned: bool) -> str:
    if order != "timestamps":
        return "first error in the file"
    return "first error by time, the nodes' clocks aligned," if aligned else "first error by time"


# ── did it fail ──────────────────────────────────────────────────────────────────────────────


def _survived(v: Values) -> str:
    return f"{v['count']} earlier error line{'s' * (v['count'] > 1)} left aside: the job went on after"


def _earlier(v: Values) -> str:
    told = [f"{e.cause}" + (f" on rank {e.rank}" if e.rank is not None else "") for e in v["earlier"]]
    return f"attempt {v['attempt']}; before it failed: {', then '.join(told)}"


# ── who was first ────────────────────────────────────────────────────────────────────────────


def _first_of_alike(v: Values) -> str:
    return f"{_first_by(v['order'], v['aligned'])} of {len(v['ranks'])} ranks that failed alike ({ranges(v['ranks'])})"


def _waited_for_unknown(v: Values) -> str:
    who = names_of(v["ranks"]) if v["ranks"] else "the writers of these lines"
    return f"{who} lost or waited for another process, which the log does not name"


def _never_a_word(v: Values) -> str:
    return f"{names_of(v['waiting'])} waited; {names_of(v['ranks'])} never said a word"


_WORK = {
    "preparing": "one process was still preparing data", "fetching": "one process was still fetching files",
    "saving": "one process was saving", "evaluating": "one process was evaluating",
}  # fmt: skip


def _busy_meanwhile(v: Values) -> str:
    return (
        f"{_WORK[v['kind']]} ({v['text']}) {duration(v['spent'])} into the others' timeout of {duration(v['limit'])}: "
        "they waited for it"
    )


def _busy_until_ended(v: Values) -> str:
    return (
        f"{_WORK[v['kind']]} ({v['text']}) when the step was ended, after {duration(v['spent'])}: other ranks wait "
        f"{duration(v['limit'])} by default, and such a timeout ends a step without saying so in this log"
    )


def _overdue(v: Values) -> str:
    return (
        f"it was told after {duration(v['ran'])} ({v['ran'] / 3600:.1f} h), {v['ran'] / v['limit']:.0f} times the limit of "
        f"{duration(v['limit'])}: the watchdog itself was blocked"
    )


# ── how it ended ─────────────────────────────────────────────────────────────────────────────


def _witnesses_differ(v: Values) -> str:
    others = "; ".join(f"{witness} says {exit_words(exit)}" for witness, exit in v["others"].items())
    return f"the witnesses of rank {v['rank']}'s end differ: {v['witness']} says {exit_words(v['exit'])}; {others}"


def _first_in_order(v: Values) -> str:
    by_file = "first in the file; the log has no usable stamps"
    return "first error by time" if v["order"] == "timestamps" else by_file


def _follows(v: Values) -> str:
    return f"{', '.join(v['causes'])} follow{'s' * (len(v['causes']) == 1)} from it"


def _crash_stack(v: Values) -> str:
    who = "the thread that crashed" if v["thread"] == "current" else "the main thread"
    innermost = frames(v["traceback"])[-1]
    return f"faulthandler shows {who} in {innermost.function} ({innermost.short_place})"


# ── how it stood ─────────────────────────────────────────────────────────────────────────────


def _step(step: int | None) -> str:
    return "" if step is None else f" (step {step})"


def _stood_still(v: Values) -> str:
    state = v["state"]
    every = "while" if state.pause is None else duration(state.pause)
    return f"no step for the last {duration(state.idle)}{_step(state.step)}, where steps had come every {every}: it stood still"


def _had_finished(v: Values) -> str:
    state = v["state"]
    if state.step is not None:
        return f"the last of {state.step} steps was made; what ran on was the script, or a process in its background"
    before = "" if state.idle is None else f", {duration(state.idle)} before the end"
    return f"the program had finished{before}; what ran on was the script, or a process in its background"


def _made_progress(v: Values) -> str:
    state = v["state"]
    return f"the last step{_step(state.step)} came {duration(state.idle)} before the end: it made progress, and only ran out of time"


# ── what Slurm's record says ─────────────────────────────────────────────────────────────────


def _not_started(v: Values) -> str:
    return f"the job has not started: Slurm's reason is {v['why'] or 'not told'}"


def _recorded(v: Values) -> str:
    who = f"step {v['step']}" if v["step"] else "the job"
    return f"Slurm calls {who} {v['state']}{_by_whom(v.get('uid'), v.get('owner'))}"


def _by_whom(uid: int | None, owner: int | None) -> str:
    if uid is None:
        return ""
    if uid == owner:
        return f", by the job's own user (uid {uid})"
    return ", by root: an administrator, or a program of the site" if uid == 0 else f", by another user (uid {uid})"


def _completed(v: Values, then: str) -> str:
    well = "the script ended with 0" if v["by_script"] else "Slurm calls the job COMPLETED"
    if v["step"]:
        name, state, exit = v["step"]
        well += f", but step {name} {state} ({exit_words(exit)})"
    elif v["derived"]:
        well += f", but a step ended with {exit_words(v['derived'])}"
    return well + then


def _idled_into_limit(v: Values) -> str:
    said = sentence(v["recorded"])
    return f"{said}: it only idled into its limit after the failure, and a longer one would not have helped"


def _warning_ended_it(v: Values) -> str:
    left = duration(v["left"])
    if v["program"]:
        running = (
            f"the script was ended by a signal while its {v['program']} was still running, {left} before its time limit"
        )
        return f"{running}: --signal asks for {v['signal']} {v['before']} s before it"
    return f"{v['signal']} came {left} before the time limit, as --signal asks, and nothing handled it"


_SENTENCES: Mapping[str, str | Callable[[Values], str]] = {
    **UNREAD,
    **WAITS,
    "survived": _survived,
    "exit-status-zero": "the job's exit status is 0",
    "program-completed": "the program says that it completed: {text}",
    "steps-to-the-end": "steps to the end of the log, and no error that was not survived",
    "stopped-short": "the last step is {step} of {steps}: the job runs still, or it ended without a word of why",
    "cut-short": "the log ends within a line: what came then is not in it",
    "earlier-attempts": _earlier,
    "last-telling-line": "no error of its own: the last telling line before its end names the cause",
    "after-own-wait": lambda v: (
        f"{', '.join(v['causes'])} only on ranks that had waited in vain for another one before: a consequence"
    ),
    "whole-job": "Slurm or a person ended the whole job, not one rank",
    "task-failed": "Slurm ended the step because one of its tasks had failed; the log does not tell which one",
    "not-stopped": "Slurm ended the step because a task had failed, and stopped all others: task {task} is the one",
    "record-names-no-process": "Slurm's record says so; the log does not name the process",
    "printed-again": "the error is told again with its rank",
    "group-rank": "the watchdog that quotes the error says [Rank {rank}], and no other process group is to be seen",
    "all-alike": lambda v: f"{'all ' * v['all']}{v['count']} ranks failed alike; first seen on rank {v['rank']}",
    "stood-still-alike": lambda v: f"{names_of(v['ranks'])} stood still alike: none of them was first",
    "first-of-alike": _first_of_alike,
    "witness-alone": "{witness} reports it; the rank itself said nothing",
    "first-unexplained": lambda v: f"{_first_by(v['order'], v['aligned'])} that nothing else explains",
    "local-rank-assumed": "its rank is its local rank: one launcher speaks, and nothing shows a second node",
    "struck": "{cause} is told by the system; rank {rank} is the one that died of it",
    "witness-names": "the error's line names no rank; {witness} says that rank {rank} ended so",
    "ended-alike": lambda v: f"ranks {ranges(v['ranks'])} ended alike, and the error's line names none of them",
    "never-ended": lambda v: (
        f"srun tells no end of task{'s' * (len(v['tasks']) > 1)} {ranges(v['tasks'])}: ended well, or still waiting for the others"
    ),
    "local-rank-only": "the line tells only a local rank ({local_rank}), and nothing tells of which node",
    "no-rank": "the error's line names no rank",
    "waited-for-unknown": _waited_for_unknown,
    "never-a-word": _never_a_word,
    "rank-0-busy": "rank 0 was busy while the others waited for it: {text}",
    "meanwhile": "rank {rank} meanwhile: {text}",
    "busy-meanwhile": _busy_meanwhile,
    "busy-until-ended": _busy_until_ended,
    "completed-before": "the program had said before that it was done ({text}): the training is complete, and only its end hung",
    "overdue": _overdue,
    "stands-elsewhere": lambda v: (
        f"rank {ranges(v['ranks'])} stands in {v['here']} while the others stand in {v['usual']}"
    ),
    "witness": "{witness}",
    "witness-of-several": "{witness}; other processes ended otherwise",
    "crash-handler": "the process's own crash handler",
    "recorded-step": "sacct on step {step}",
    "recorded-job": "Slurm on the job",
    "script-status": "the script's own status",
    "witnesses-differ": _witnesses_differ,
    "record-hides-exit": lambda v: (
        f"Slurm's {exit_words(v['recorded'])} hides the first exit, {v['own']}: it is the highest of all tasks"
    ),
    "spoke-on": "the program printed much after it, so it may not be what ended the job",
    "table-agrees": "torchelastic's table names the same rank",
    "first-in-order": _first_in_order,
    "follows": _follows,
    "crash-stack": _crash_stack,
    "had-hung": lambda v: f"{_stood_still(v)}, and a longer limit would not have helped",
    "stood-still": _stood_still,
    "had-finished": _had_finished,
    "made-progress": _made_progress,
    "not-started": _not_started,
    "still-running": "the job is still running: this is what is known so far",
    "recorded": _recorded,
    "preempted-as": "Slurm preempted the job, and calls it {state}",
    "recorded-after": lambda v: f"{sentence(v['said'])}, after the failure",
    "recorded-besides": lambda v: f"{sentence(v['said'])}, yet the log's own first failure is another: both are shown",
    "completed-but-last-step": "Slurm calls the job COMPLETED, but its last step {step} {state}",
    "completed-no-root": lambda v: _completed(
        {**v, "step": None, "derived": None}, ", no step failed, and the log names no root"
    ),
    "completed-status-hides": lambda v: _completed(v, ": the script's own exit status hides it"),
    "completed-untold": lambda v: _completed(v, ", and the log does not say why"),
    "completed-no-step-failed": lambda v: _completed({**v, "step": None, "derived": None}, ", and no step failed"),
    "script-ended-with": lambda v: f"the script ended with {v['status']} ({exit_words(v['exit'])})",
    "recorded-state": lambda v: f"Slurm calls the job {v['state']} ({exit_words(v['exit'])})",
    "log-shows-no-error": "the log shows no error: its end, or another log, is missing",
    "script-signalled": "the script was ended by a signal: its {program} was still running",
    "script-signalled-by-unknown": (
        "the script was ended by a signal: its {program} was still running; who sent it is not known"
    ),
    "idled-into-limit": _idled_into_limit,
    "warning-ended-it": _warning_ended_it,
    "script-says": "{script}:{line}: {says}",
    "clocks-differ": lambda v: (
        f"clocks differ: {v['name']} is {duration(abs(v['seconds']))} {'ahead of' if v['seconds'] > 0 else 'behind'} "
        f"{v['reference']}, by {v['steps']} steps that both report"
    ),
    "cause": "{cause}",
    "failed-alike": "failed alike: {cause}",
    "waited-for-others": "{cause}: waited for others",
    "follows-from-first": "{cause}, which follows",
    "stacks-show-waiting": "their stacks show them waiting",
    "ended-without-error": lambda v: f"{exit_words(v['exit'])}, says {v['witness']}; no error of their own",
    "completed": "said that they completed",
    "nothing-told": "no error, no ending: nothing in the log tells",
}
"""Code -> a template of its values, or a function of them."""
