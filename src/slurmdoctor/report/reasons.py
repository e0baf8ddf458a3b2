"""The sentences for the codes of inference's reasons."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from msgspec.structs import replace

from slurmdoctor.model import SHORT, Knowledge, ProcessExit, Reason, fold_nodes, ranges
from slurmdoctor.report.redaction import one_line, redact
from slurmdoctor.report.terminal import cut
from slurmdoctor.report.wording import ONLY_ERROR, duration, exit_words, frames, listed, names_of, plural, size

Values = Mapping[str, Any]
_LAST = ("survived", "earlier-attempts")
"""Reasons that prove nothing of the verdict: they say what was left out."""


def sentence(reason: Reason) -> str:
    """What a reason says, in a sentence without a full stop."""
    template = _SENTENCES[reason.code]
    return template.format_map(reason.values) if isinstance(template, str) else template(reason.values)


def as_sentences(reasons: Iterable[Reason], knowledge: Knowledge) -> tuple[str, ...]:
    """The reasons in words, each once: what convinces most first, what was left out last."""
    ordered = sorted(reasons, key=lambda reason: reason.code in _LAST)
    return tuple(dict.fromkeys(sentence(with_symptoms(reason, knowledge)) for reason in ordered))


def with_symptoms(reason: Reason, knowledge: Knowledge) -> Reason:
    """A reason in which the causes that only follow are called by what their lines are: `lost peers`."""
    if "causes" not in reason.values:
        return reason
    known = knowledge.causes
    names = [known[c].symptom or f"{c} errors" for c in reason.values["causes"]]
    return replace(reason, values={**reason.values, "causes": names})


def sentences(reasons: Iterable[Reason]) -> str | None:
    """Several reasons in one sentence; None for none."""
    return "; ".join(map(sentence, reasons)) or None


# ── words that several sentences share ───────────────────────────────────────────────────────


_EARLIEST = {
    "time": "by time",
    "line": "by line order (no timestamps)",
    "partly": "by line order (timestamps incomplete)",
}


def _first_by(order: str, aligned: bool) -> str:
    if order != "timestamps":
        return "earliest error by line order"
    return "earliest error by time (clocks of the nodes aligned)" if aligned else "earliest error by time"


# ── did it fail ──────────────────────────────────────────────────────────────────────────────


def _earlier(v: Values) -> str:
    counts = Counter(e.cause for e in v["earlier"])
    causes = [f"{cause}{f' ({count} times)' if count > 1 else ''}" for cause, count in counts.items()]
    return f"this is attempt {v['attempt']}; earlier ones failed with {listed(causes)}"


# ── who was first ────────────────────────────────────────────────────────────────────────────


def _waited_for_unknown(v: Values) -> str:
    who = names_of(v["ranks"]) if v["ranks"] else "the processes that printed these lines"
    return f"{who} lost a connection to, or waited for, another process; the log does not say which one"


_WORK = {
    "preparing": "one process was still preparing data", "fetching": "one process was still fetching files",
    "saving": "one process was saving", "evaluating": "one process was evaluating",
}  # fmt: skip


# ── how it ended ─────────────────────────────────────────────────────────────────────────────


def _witnesses_differ(v: Values) -> str:
    others = ", ".join(f"{witness} reports {exit_words(exit)}" for witness, exit in v["others"].items())
    return f"reports on how rank {v['rank']} ended differ: {v['witness']} reports {exit_words(v['exit'])}, {others}"


def _first_in_order(v: Values) -> str:
    among = f" among {v['ranks']} ranks" if v["ranks"] > 1 else ""
    return f"earliest error{among} {_EARLIEST[v['by']]}"


def _follows(v: Values) -> str:
    if v["by"] == "below":
        return f"the {listed(v['causes'])} follow from it, also those printed above it: output is buffered"
    within = f" (within {duration(v['within'])})" if v["within"] is not None and v["within"] >= 1 else ""
    return f"explains the later {listed(v['causes'])}{within}"


def _crash_stack(v: Values) -> str:
    who = "the thread that crashed" if v["thread"] == "current" else "the main thread"
    innermost = frames(v["traceback"])[-1]
    return f"faulthandler shows {who} in {innermost.function} ({innermost.short_place})"


# ── what Slurm's record says ─────────────────────────────────────────────────────────────────


def _recorded(v: Values) -> str:
    who = f"step {v['step']}" if v["step"] else "the job"
    return f"Slurm's record shows {who} as {v['state']}{_by_whom(v.get('uid'), v.get('owner'))}"


def _by_whom(uid: int | None, owner: int | None) -> str:
    if uid is None:
        return ""
    if uid == owner:
        return f" by the job's owner (uid {uid})"
    return " by root (an administrator or a site tool)" if uid == 0 else f" by another user (uid {uid})"


def _completed(v: Values) -> str:
    return "the script exited with 0" if v["by_script"] else "Slurm's record shows the job as COMPLETED"


def _but_a_step(v: Values) -> str:
    if v["step"]:
        name, state, exit = v["step"]
        return f"{_completed(v)}, but step {name} {state}" + (f" ({exit_words(exit)})" if exit else "")
    return _completed(v) + (f", but a step ended with {exit_words(v['derived'])}" if v["derived"] else "")


def _or_none(v: Values, word: str = "") -> str:
    return _but_a_step(v) if v["step"] or v["derived"] else f"{_completed(v)}, {word}no step failed"


def _ran_before(v: Values) -> str:
    """`Slurm ran it once before, on gpu07 (NODE_FAIL); it began again on gpu07`."""
    how = str(v["state"])
    if v["state"] == "REQUEUED":
        ended = f"it had ended with {exit_words(v['failed'])}, and was requeued while it was completing"
        how = ended if v["failed"] else "requeued" + " while it ran" * v["ran"]
    times = "once" if v["count"] == 1 else f"{v['count']} times"
    on = f", {'last ' * (v['count'] > 1)}on {fold_nodes(v['nodes'])}" if v["nodes"] else ""
    again = f"; it ran on {fold_nodes(v['again'])} again" if v["again"] else ""
    at_once = " (an expedited requeue, which takes the same nodes)" if v["expedited"] else ""
    counter = f"; its restart counter, {v['counter']}, does not agree" if v["counter"] is not None else ""
    return f"Slurm ran the job {times} before{on} ({how}){again}{at_once}{counter}"


def _warning_ended_it(v: Values) -> str:
    left = duration(v["left"])
    if v["program"]:
        running = f"a signal ended the script while its {v['program']} was still running, {left} before its time limit"
        return f"{running}: --signal sends {v['signal']} {v['before']} s before the limit"
    return f"{v['signal']} came {left} before the time limit, as --signal asks, and nothing handled it"


def _step(step: int | None) -> str:
    return "" if step is None else f" (step {step})"


def _no_first_step(v: Values) -> str:
    state = v["state"]
    came = "no step came" if state.idle is None else f"no step came in the {duration(state.idle)}"
    return f'{came} after "{state.began}"'


def _launch_size(v: Values) -> str:
    if v["world"] == 1:
        return f"world_size=1, but the job has {v['total']} GPUs: each process trains alone; check that the launcher sets RANK and WORLD_SIZE"
    return (
        f"world_size={v['world']}, but the job has {v['total']} GPUs: only {v['world']} of them train together; "
        "check --nodes and --ntasks-per-node"
    )


def _nothing_trained(v: Values) -> str:
    at = "" if v["step"] is None else f" at step {v['step']}"
    where = f" from {v['path']}" if v["path"] else ""
    do = "; if that is an old run, use another checkpoint folder" if where else ""
    return f"no training step was made: the run resumed{at}{where} and was done at once{do}"


def _stood_still(v: Values) -> str:
    state = v["state"]
    every = "" if state.pause is None else f", though steps had come every {duration(state.pause)}"
    return f"no step in the last {duration(state.idle)}{_step(state.step)}{every}: the job was stalled"


def _had_finished(v: Values) -> str:
    state = v["state"]
    if state.step is not None:
        return f"all {state.step} steps were done; only the script, or a background process of it, was still running"
    before = "" if state.idle is None else f", {duration(state.idle)} before the end"
    return f"the program had finished{before}; only the script, or a background process of it, was still running"


_WHY = {
    "dangling": "dangling link", "loop": "circular link", "denied": "without read permission", "missing": "vanished",
    "vanished": "vanished", "replaced": "replaced while being read", "shrunk": "truncated while being read", "damaged": "damaged",
    "no-decoder": "zstd (no decoder installed)", "binary": "not text", "pipe": "pipe", "device": "device", "socket": "socket",
    "folder": "folder", "broken": "on a disk that does not answer", "too-long": "with too long a name", "too-many": "over the limit of files",
    "too-large": "too large", "foreign-link": "behind another user's link",
}  # fmt: skip
_NOUNS = frozenset({"dangling", "loop", "pipe", "device", "socket", "folder"})


def _not_read(v: Values, how: str) -> str:
    """`12 files were not read: 9 dangling links (latest.log, …), 3 damaged (a.gz, b.gz, c.gz)`."""
    kinds = []
    for why, count, names in v["kinds"]:
        word = _WHY[why] + "s" * (why in _NOUNS and count > 1)
        shown = ", ".join(one_line(redact(name))[:60] for name in names) + ", …" * (count > len(names))
        kinds.append(f"{count:,} {word} ({shown})")
    return f"{plural(v['count'], 'file')} {'was' if v['count'] == 1 else 'were'} {how}: {', '.join(kinds)}"


def _earlier_run(v: Values) -> str:
    lines, files = v["lines"], v["files"]
    many = size(v["bytes"]) if lines is None else plural(lines, "line")
    where = f"lines 1-{lines}" if files == 1 and lines and lines > 1 else many + f" in {files:,} files" * (files > 1)
    return f"skipped the output of an earlier run: {where}"


def _several_jobs(v: Values) -> str:
    named = ", ".join(one_line(redact(job))[:40] for job in v["jobs"])
    more = v["count"] - len(v["jobs"])
    many = f"{named} and {more:,} more" if more > 0 else named
    return f"these are the files of {v['count']:,} jobs ({many}), read as one: name the files of one"


def _out_of_time(v: Values) -> str:
    of = "" if v["total"] is None else f" of {size(v['total'])}"
    return f"stopped reading after the limit of {v['seconds']:g} s: read {size(v['searched'])}{of}"


def _short(name: str) -> str:
    return one_line(redact(name))[-60:]


_MOST_NUMBERS = 4
"""Collectives that a sentence names."""


def _collective(seq: int | None, op: str | None) -> str:
    return f"{op}" if seq is None else f"SeqNum {seq} ({op})"


def _kind(kind: tuple[str | None, int | None]) -> str:
    op, size = kind
    return f"{op}" if size is None else f"{op} of {size} elements"


def _never_reported(v: Values) -> str:
    waiting = f"{v['waiting']} of {v['of']}" if v["of"] else v["waiting"]
    words = f"{waiting} ranks timed out in {_collective(v['seq'], v['op'])}; {names_of(v['ranks'])} never reported it"
    ended = [f"rank {rank} {_was_ended(exit, witness)}" for rank, exit, witness in v["ended"]]
    words = f"{words} ({'; '.join(ended)})" if ended else words
    return words if v["of"] else f"{words}; the log does not show how many ranks there are"


def _was_ended(exit: ProcessExit, witness: str) -> str:
    if exit.signal:
        return f"was later ended by {exit.signal}, reported by {witness}"
    return f"ended with {exit_words(exit)}, reported by {witness}"


def _other_collective(v: Values) -> str:
    kinds = ", ".join(sorted({_kind(kind) for kind in v["kinds"]}))
    one = len(v["ranks"]) == 1
    return (
        f"at SeqNum {v['seq']} {names_of(v['ranks'])} {'waits' if one else 'wait'} in {kinds} while {v['others']} other ranks wait in "
        f"{_kind(v['usual'])}: {'it' if one else 'they'} took a different order of collectives"
    )


def _behind(v: Values) -> str:
    others = f"{plural(v['waiting'], 'rank')} waited in {_collective(v['seq'], v['op'])}"
    if v["own"]:
        own = ", ".join(_collective(seq, op) for seq, op in v["own"])
        back = f", {v['seq'] - v['own'][0][0]} behind" if v["seq"] is not None and len(v["own"]) == 1 else ""
        return f"{names_of(v['ranks'])} still waited in {own}{back}, while {others}"
    return f"{names_of(v['ranks'])} had enqueued nothing beyond the last completed collective while {others}"


def _ahead(v: Values) -> str:
    many = len(v["ranks"]) > 1
    return (
        f"{names_of(v['ranks'])} {'wait' if many else 'waits'} in {_collective(v['seq'], v['op'])}, {v['seq'] - v['usual_seq']} ahead of "
        f"{_collective(v['usual_seq'], v['usual_op'])}, where {names_of(v['others'])} wait: {'they' if many else 'it'} took a "
        "different order of collectives"
    )


def _numbers_differ(v: Values) -> str:
    by_work: dict[tuple[int | None, str | None], list[int]] = {}
    for seq, op, rank in v["waits"]:
        by_work.setdefault((seq, op), []).append(rank)
    works = [f"{names_of(ranks)} in {_collective(*work)}" for work, ranks in by_work.items()]
    more = f" and {len(works) - _MOST_NUMBERS} more" if len(works) > _MOST_NUMBERS else ""
    why = (
        "numbers this far apart belong to different process groups, which the log does not name"
        if v["far"]
        else "their order of collectives differs, and the log does not show which rank is wrong"
    )
    return f"the ranks timed out in different collectives: {', '.join(works[:_MOST_NUMBERS])}{more}; {why}"


def _waits_unclear(v: Values) -> str:
    words = f"{_ranks_of(v)} waited in {_collective(v['seq'], v['op'])}"
    if v["silent"]:
        words += f"; {names_of(v['silent'])} printed nothing in this log"
    else:
        words += f"; the log does not show for which rank{', or how many ranks there are' * (not v['of'])}"
    if v["queued"]:
        words += f"; {plural(v['queued'], 'more collective')} {'was' if v['queued'] == 1 else 'were'} enqueued behind it, so the program itself went on"
    return words


def _ranks_of(v: Values) -> str:
    return names_of(v["ranks"]) + (f" of {v['of']}" if v["of"] else "")


def _all_entered(v: Values) -> str:
    hung = f"all {v['count']} ranks entered {_collective(v['seq'], v['op'])} with the same size: it hung below NCCL "
    return hung + (
        "(network)" if v.get("told") else "(network or GPU), and the log does not show which rank is at fault"
    )


_HELD = "; a node could not start it (prolog, reboot): exclude that node, and let the job go with `scontrol release`"


def _reads_like(cause: str, words: Sequence[str], example: str | None, sure: bool) -> str:
    if example and sure:
        return f"no rule knows this line; it reads like `{cut(example, 100)}` ({cause})"
    shown = f" by {listed([f'`{one_line(redact(word))}`' for word in words])}" if words else ""
    return f"no rule knows this line; it reads {'' if sure else 'a little '}like {cause}{shown}"


_SENTENCES: Mapping[str, str | Callable[[Values], str]] = {
    "survived": lambda v: f"ignored {plural(v['count'], 'earlier error')} that the job recovered from",
    "exit-status-zero": "the job's exit status is 0",
    "program-completed": lambda v: f"the program says that it completed: {cut(v['text'], 120)}",
    "steps-to-the-end": "steps up to the end of the log and no fatal error (but no end-of-run message either)",
    "stopped-short": "the last step is {step} of {steps}: the job is still running, or it ended without printing why",
    "cut-short": "the log ends in the middle of a line: what came next is missing",
    "earlier-attempts": _earlier,
    "in-good-run": "the run that ended well has this line, too: look for another reason",
    "not-in-good-run": "the run that ended well does not have this line",
    "last-telling-line": "no traceback from this rank; its last relevant line names the cause",
    "after-own-wait": lambda v: (
        f"{listed(v['causes'])} only on ranks that had timed out waiting for another rank before: a consequence"
    ),
    "whole-job": "the scheduler or a person stopped the whole job, not one rank",
    "task-failed": "Slurm ended the step because one of its tasks had failed; the log does not say which one",
    "not-stopped": "Slurm ended the step because a task had failed and stopped all others, so task {task} is the one",
    "record-names-no-process": "from Slurm's record; the log does not show which process",
    "printed-again": "the same error is printed again with its rank",
    "only-rank": "the job has one rank",
    "group-rank": "the watchdog that quotes the error prints [Rank {rank}], and the log shows no other process group",
    "all-alike": lambda v: f"{'all ' * v['all']}{v['count']} ranks failed the same way; first seen on rank {v['rank']}",
    "stood-still-alike": lambda v: f"{names_of(v['ranks'])} stalled together: none of them was first",
    "first-of-alike": lambda v: (
        f"{_first_by(v['order'], v['aligned'])} of {len(v['ranks'])} ranks that failed the same way ({ranges(v['ranks'], SHORT)})"
    ),
    "witness-alone": "reported by {witness}; the rank itself printed no error",
    "last-line-of-reported": "{witness} reports that it failed; the line shown is the last relevant one before its end",
    "first-unexplained": lambda v: f"{_first_by(v['order'], v['aligned'])} that nothing else explains",
    "local-rank-assumed": "its local rank is taken as its rank: one launcher and one node in this log",
    "struck": "the system reported it without a rank; rank {rank} is the one that died of it",
    "witness-names": "the error line shows no rank; {witness} reports that rank {rank} ended this way",
    "ended-alike": lambda v: f"{names_of(v['ranks'])} ended this way; the error line does not say which one was first",
    "never-ended": lambda v: (
        f"srun reports no end of task{'s' * (len(v['tasks']) > 1)} {ranges(v['tasks'], SHORT)}: finished normally, or still waiting for the others"
    ),
    "local-rank-only": "the line shows only a local rank ({local_rank}), and nothing shows on which node",
    "no-rank": "the log does not say which rank failed first",
    "only-error": ONLY_ERROR,
    "waited-for-unknown": _waited_for_unknown,
    "never-a-word": lambda v: f"{names_of(v['waiting'])} waited; {names_of(v['ranks'])} printed nothing",
    "rank-0-busy": "rank 0 was still busy while the others waited for it: {text}",
    "fell-to-sockets": lambda v: (
        f"NCCL on {', '.join(v['nodes'])} alone fell back to sockets; other nodes use InfiniBand"
    ),
    "still-joining": lambda v: (
        f"{v['came']} of {v['of']} ranks had joined the process group when the log ends: ranks {ranges(v['absent'])} are absent"
    ),
    "rank-0-at-work": "rank 0 printed no error, and was at work: {text}",
    "meanwhile": "rank {rank} meanwhile: {text}",
    "busy-meanwhile": lambda v: (
        f"{_WORK[v['kind']]} ({v['text']}) {duration(v['spent'])} into the others' timeout of {duration(v['limit'])}: "
        "they waited for it"
    ),
    "completed-before": "the program had already printed that it was done ({text}): training is complete, only the shutdown hung",
    "overdue": lambda v: (
        f"reported only after {duration(v['ran'])} ({v['ran'] / 3600:.1f} h), {v['ran'] / v['limit']:.0f} times the limit of "
        f"{duration(v['limit'])}: the watchdog itself was blocked"
    ),
    "stands-elsewhere": lambda v: (
        f"{names_of(v['ranks'])} {'are' if len(v['ranks']) > 1 else 'is'} in {v['here']} while the others are in {v['usual']}"
    ),
    "witness": "{witness}",
    "witness-of-several": "{witness}; other processes ended differently",
    "crash-handler": "the process's crash handler",
    "own-words": "its own last message",
    "recorded-step": "sacct for step {step}",
    "recorded-job": "Slurm for the whole job",
    "given-status": "the job's exit status",
    "script-status": "the batch script",
    "witnesses-differ": _witnesses_differ,
    "record-hides-exit": lambda v: (
        f"Slurm records {exit_words(v['recorded'])}, the highest of all tasks; the first to fail exited with {v['own']}"
    ),
    "spoke-on": "the program printed much more after it, so it may not be what ended the job",
    "table-agrees": "torchelastic's table names the same rank as first",
    "first-in-order": _first_in_order,
    "follows": _follows,
    "crash-stack": _crash_stack,
    "not-started": lambda v: (
        f"the job has not started; Slurm's reason: {v['why'] or 'not given'}{_HELD * (v['why'] or '').lower().startswith('launch')}"
    ),
    "still-running": "the job is still running; this is what is known so far",
    "recorded": _recorded,
    "preempted-as": "Slurm preempted the job (recorded state {state})",
    "reads-like": lambda v: _reads_like(**v),
    "recorded-after": lambda v: f"{sentence(v['said'])}, after the failure",
    "recorded-besides": lambda v: (
        f"{sentence(v['said'])}, but the log's first failure is a different one: both are shown"
    ),
    "completed-but-last-step": "Slurm's record shows the job as COMPLETED, but its last step {step} {state}",
    "completed-no-root": lambda v: f"{_or_none(v)}, and the log shows no cause",
    "completed-status-hides": lambda v: f"{_but_a_step(v)}: the script's exit status hides the failure",
    "completed-untold": lambda v: f"{_but_a_step(v)}, and the log does not say why",
    "completed-no-step-failed": lambda v: _or_none(v, "and "),
    "ran-before": _ran_before,
    "largest-task": lambda v: (
        f"the largest task that sacct measured is {v['task']} on {v['node'] or 'an unknown node'}: {size(v['bytes'] or 0)}"
    ),
    "no-start-recorded": (
        "the record shows no start, and its restart counter may be one too high: "
        "Slurm 26.05.0 to 26.05.3 record so what is requeued while it completes"
    ),
    "script-ended-with": lambda v: f"the script exited with {v['status']} ({exit_words(v['exit'])})",
    "recorded-state": lambda v: f"Slurm's record shows the job as {v['state']} ({exit_words(v['exit'])})",
    "log-shows-no-error": "the log shows no error: its end, or another log file, is missing",
    "script-signalled": "a signal ended the script while its {program} was still running",
    "script-signalled-by-unknown": (
        "a signal ended the script while its {program} was still running; the sender is unknown"
    ),
    "idled-into-limit": lambda v: (
        f"{sentence(v['recorded'])}: after the failure it sat idle until its limit, so a longer limit would not have helped"
    ),
    "warning-ended-it": _warning_ended_it,
    "script-says": "{script}:{line}: {says}",
    "clocks-differ": lambda v: (
        f"clocks differ: {v['name']} is {duration(abs(v['seconds']))} {'ahead of' if v['seconds'] > 0 else 'behind'} "
        f"{v['reference']}, judging by {v['steps']} steps that both report"
    ),
    "failed-alike": "failed the same way: {cause}",
    "waited-for-others": "{cause}: waited for other ranks",
    "follows-from-first": "{cause}, a consequence",
    "stacks-show-waiting": "their stacks show them waiting",
    "ended-without-error": lambda v: f"{exit_words(v['exit'])} (reported by {v['witness']}); printed no error",
    "completed": "printed that they completed",
    "nothing-told": "the log shows neither an error nor an end",
    # how the job stood at its end
    "had-hung": lambda v: f"{_stood_still(v)}, so a longer limit would not have helped",
    "stood-still": _stood_still,
    "no-first-step": _no_first_step,
    "had-finished": _had_finished,
    "made-progress": lambda v: (
        f"the last step{_step(v['state'].step)} came {duration(v['state'].idle)} before the end: the job was making progress and ran out of time"
    ),
    "trained": 'training had finished ("{text}"): the exit status is that of what ran after it',
    "nothing-trained": _nothing_trained,
    "launch-size": _launch_size,
    # who held up a collective
    "behind": _behind,
    "never-reported": _never_reported,
    "other-collective": _other_collective,
    "ahead": _ahead,
    "numbers-differ": _numbers_differ,
    "all-entered": _all_entered,
    "waits-unclear": _waits_unclear,
    "says-nothing": lambda v: f"{_ranks_of(v)} printed nothing in this log",
    "entered-fewer": lambda v: (
        f"{names_of(v['ranks'])} had entered collective {v['seq']} ({v['op']}) when the log ended, "
        f"{names_of(v['others'])} had entered {v['usual']}"
    ),
    "timed-out-first": "rank {rank} timed out first: it sent the dump signal",
    "reported-nothing": lambda v: (
        f"{names_of(v['ranks'])} printed before, but "
        + (
            f"did not come to step {v['step']} as {v['others']} others did"
            if v["step"]
            else f"nothing of the failure that the {v['others']} others report"
        )
    ),
    "listed-missing": lambda v: (
        f"the log lists who came, and {names_of(v['ranks'])} not among them"
        if v["came"]
        else f"the log lists {names_of(v['ranks'])} as missing"
    ),
    "kernel-clock-unknown": "the kernel log and the job's log share no clock: whether it came before the job's errors is not known",
    "dumps-show": lambda v: f"the flight recorder dumps show whom the others wait for: {names_of(v['ranks'])}",
    # what was not read
    "kernel-log-cut": lambda v: f"{_short(v['name'])}: only its last {size(v['bytes'])} were read",
    "kernel-log-of-another-time": lambda v: f"{_short(v['name'])}: no line is of the job's time",
    "dumps-unread": "of the flight recorder dumps {count} could not be read, first {name}: {why}",
    "dumps-stale": "of the flight recorder dumps {count} are of another time than the failure and were left out: {name}",
    "earlier-run": _earlier_run,
    "several-jobs": _several_jobs,
    "perhaps-several-jobs": "several files were read as one job; if they are not, name one",
    "script-cut": lambda v: f"{_short(v['name'])} was read up to line {v['line']}: it is larger than batch scripts are",
    "script-unread": lambda v: f"{_short(v['name'])} was of no use: {v['why']}",
    "files-not-read": lambda v: _not_read(v, "not read"),
    "files-read-in-part": lambda v: _not_read(v, "read only in part"),
    "out-of-time": _out_of_time,
    "left-out": lambda v: f"{_short(v['name'])}: {size(v['bytes'])} between its start and its end were not read",
    "out-of-time-again": "the reading time limit was reached before all relevant lines were examined",
    "part-read": "only part of the log was read; the rest may hold a failure",
    "not-read-again": "{count} of {total} relevant lines were counted but not examined: too many in this log",
    "tasks-left-out": "{count} exit reports were skipped: those before them already name {most} tasks",
    "read-in-part": "not all text around {count} relevant lines was read: it is too long or too far away",
    "lines-alike": "{count:,} repeated lines were counted together with the hundreds like them",
    "exceptions-alike": (
        "after {most} kinds of exceptions, {count} more lines were grouped by exception class only, or not at all"
    ),
    "steps-unread": lambda v: (
        f"the last training steps of {plural(v['logs'], 'log')} were not all read: too many logs with different line formats"
    ),
}
"""Code -> a template of its values, or a function of them."""
