"""Each of the conditions of a judgement decides alone in some log: without it, these verdicts would be other ones."""

import pytest

from builders import LIMIT, raised, watchdog
from slurmdoctor import diagnose
from slurmdoctor.input.sources import Text
from slurmdoctor.model import Diagnosis, NamedCause, Remedy
from slurmdoctor.report.text_report import render_text
from slurmdoctor.search.tally import LineGroup, Tally
from slurmdoctor.slurm.jobinfo import rows

OOM = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 79.15 GiB of which 1.00 GiB is free."
MISMATCH = (
    "RuntimeError: Expected all tensors to be on the same device, but found at least two devices, cuda:0 and cpu!"
)
LOST = "RuntimeError: [../third_party/gloo/gloo/transport/tcp/pair.cc:553] Connection closed by peer [10.7.0.32]:51559."
NO_ID = (
    "[rank{0}]: torch.distributed.DistBackendError: [{0}] is setting up NCCL communicator and retrieving ncclUniqueId from [0] via "
    "c10d key-value store by key '0', but store->get('0') got error: wait timeout after 600000ms, keys: //worker/attempt_0/0\n"
)
STAMPED = NO_ID.format(1).replace("]: ", "]: [2026-11-20 10:00:05] ", 1)
GROUP = "[PG ID 3 PG GUID 7(TENSOR_GROUP) Rank"
OTHER_WORDS = [
    "the loader opened shard alpha", "the model moved to bfloat", "the tokenizer has a new word", "a config was written by hydra",
    "the optimizer state was sharded", "evaluation begins with the dev set", "gradients are being reduced",
    "a scheduler was chosen for warmup", "the cache was warmed by readers", "the sampler was seeded again",
]  # fmt: skip
STEP_ENDED = "slurmstepd: error: *** STEP 42.0 ON gpu07 CANCELLED AT 2026-11-20T10:00:05 ***"
AGENT = "ERROR:torch.distributed.elastic.multiprocessing.api:failed (exitcode: 1) local_rank: 1 (pid: 519) of binary: /usr/bin/python"
SPAWNED = "torch.multiprocessing.spawn.ProcessRaisedException: \n\n-- Process 0 terminated with the following error:"


def judged(*lines: str) -> Diagnosis:
    return diagnose("".join(f"{line}\n" for line in lines))


READS = "[rank0]: {}reading the corpus of the third part\n"


@pytest.mark.parametrize(
    ("logs", "at_work"),
    [
        ([NO_ID.format(1) + NO_ID.format(2) + READS.format("")], True),
        ([NO_ID.format(1) + READS.format("") + NO_ID.format(2)], False),
        ([NO_ID.format(1) + NO_ID.format(2), READS.format("")], False),
        ([NO_ID.format(1) + READS.format("[2026-11-20 10:00:00] ")], True),
        ([STAMPED + READS.format("[2026-11-20 10:00:05] ")], True),
        ([STAMPED + READS.format("[2026-11-20 10:00:04] ")], False),
    ],
)
def test_only_what_rank_0_prints_after_the_others_gave_up_is_work_that_went_on(logs: list[str], at_work: bool) -> None:
    found = diagnose([Text.source(log, f"{at}.log") for at, log in enumerate(logs)])
    assert any("at work" in why for why in found.reasons) is at_work


def test_work_proves_nothing_where_the_time_out_has_a_time_no_later_than() -> None:
    waited = watchdog(1, "[rank1]:[E ProcessGroupNCCL.cpp:616] ", 5, minutes=30)
    work = "[rank0]: 2026-11-27 10:00:00,000 INFO Building dataset index"
    found = judged(work, "[rank1]: 2026-11-27 10:30:05,000 INFO still here", waited)
    assert not [why for why in found.reasons if "dataset" in why]


def test_ranks_of_a_group_with_uneven_steps_between_them_lack_nobody() -> None:
    ranks = enumerate((0, 1, 4, 6, 8))
    said = (watchdog(at, f"[rank{rank}]:[E ProcessGroupNCCL.cpp:616] ", 5, "ALLGATHER", (10, 50)) for at, rank in ranks)
    found = diagnose("".join(said).replace("[Rank", GROUP))
    assert found.first_failure.rank is None
    assert found.reasons[0].startswith("all 5 ranks entered SeqNum 5")


def test_a_banner_of_two_processes_above_an_error_is_no_new_start_below_it() -> None:
    banner = ["Starting the training of project alpha", "Reading the configuration from disk"]

    def talk(*colours: str) -> list[str]:
        parts = ("alpha", "beta", "gamma", "delta", "epsilon")
        return [f"the {part} was prepared by the worker of the {one} and written" for part in parts for one in colours]

    below = talk("red", "blue", "green", "white", "black")
    found = judged(*banner, *talk("one", "two"), *banner, OOM, *banner, *below)
    assert (found.verdict, found.cause.id) == ("failed", "cuda-oom")


def test_a_job_name_with_a_line_end_splits_no_row_of_sacct() -> None:
    text = "5\x1fa\x1fb\n6\x1fc\x1f5\n"
    assert [row["JobID"] for row in rows([text], ["JobID", "JobName", "JobIDRaw"])] == ["5"]


def test_what_a_check_names_is_kept_where_the_fix_names_less() -> None:
    found = Diagnosis(
        "failed",
        cause=NamedCause("gpu-fault", "process", "met a fault of the GPU", "gpu-fault/x", "medium"),
        fixes=(Remedy(do="Watch `nvidia-smi` while it runs."),),
        verify=("Run `nvidia-smi -q -d ECC` on the node.",),
    )
    assert "nvidia-smi -q -d ECC" in render_text(found, width=100, colour=False)


CUT = raised().partition("    f()")[0]
TALK = "".join(f"{line}\n" for line in OTHER_WORDS)
TWO = "".join(f"Initializing distributed: GLOBAL_RANK: {n}, MEMBER: {n + 1}/4\n" for n in (0, 1))
SHELL = "/var/spool/slurmd/job9/slurm_script: line 3: conda: command not found\n"
NO_SPACE = "OSError: [Errno 28] No space left on device"
FULL = raised(NO_SPACE, "[default1]:")
EPOCH = "[default1]:2026-11-20 10:0{}:00,000 INFO epoch 1\n"


COPY = "cp: cannot stat 'out': No such file or directory\n"
STEPS = "".join(f"2026-11-20 10:0{n}:00 INFO step {n} loss 2.1\n" for n in range(4, 7))
ROOT_CAUSE = "Root Cause (first observed failure):\n[0]:\n  time      : 2026-03-01_10:00:00\n  host      : cn02\n"

PARTED = f"[rank1]: {LOST}\n"
NO_PACKAGE = "Error in library(sf) : there is no package called 'sf'\n"
ROWS = "a row of the sample was written to the table\n" * 16


def labelled(label: str, text: str) -> str:
    return "".join(f"{label}{line}\n" for line in text.splitlines())


def waits(*ranks: int, seq: int = 5, of: int = 4, numel: tuple[int, int] = (10, 40), minutes: int = 10) -> str:
    """What watchdogs print without a label, in a job of `of` ranks."""
    said = (watchdog(rank, "[E ProcessGroupNCCL.cpp:475] ", seq, "ALLGATHER", numel, minutes) for rank in ranks)
    return f"world size: {of}\n" + "".join(said)


@pytest.mark.parametrize(
    ("log", "cause", "rank"),
    [
        # several processes write without labels: what follows need not be the same one's; numbers that stay are no progress
        (f"{TWO}starting\nstep 1 loss 2.0\n{MISMATCH}\n{TALK}{OOM}\n", "tensor-mismatch", None),
        (f"starting\n{MISMATCH}\n" + "the state of problem 5\n" * 7 + OOM, "tensor-mismatch", None),
        # a line between frame and exception is skipped, and what looks like one is none; a vague error is no end
        (
            f"step 1 loss 2.0\n{CUT}    main()\nNCCL version 2.21.5\nLoading: shard 3\nKeyError: 3\n",
            "python-error",
            None,
        ),
        (f"{TALK}Error: could not fetch metrics from server\n", None, None),
        # a thread's exception ends no process, nor does one that is ignored, or that is a warning's or a wrapper's own line
        (f"starting\nException in thread Thread-3 (pin):\n{raised()}", None, None),
        (f"starting\nException in thread Thread-3 (pin):\n{CUT}", None, None),
        (f"starting\nException ignored in: <function Pool.__del__ at 0x7f>\n{CUT}", None, None),
        (f"starting\n{CUT}", "python-error", None),
        (f"WARNING:root:{raised('WARNING:root:KeyError: 1')}", None, None),
        ("starting\nUserWarning: Error in row 3\n", None, None),
        ("starting\ntorch.multiprocessing.spawn.ProcessRaisedException: a child failed\n", None, None),
        # frames without their head; where a log goes on elsewhere its end cuts no traceback; a head within one is another's
        (f"starting\n{CUT.partition(':')[2]}KeyError: 'x'\nclosing\n", "python-error", None),
        (f"starting\n{CUT.partition(':')[2]}[WARNING] KeyError: 'x'\n", None, None),
        (labelled("[rank1]: ", CUT) + labelled("[rank0]: ", TALK), "python-error", 1),
        (labelled("[rank1]: ", CUT) + labelled("[rank0]: ", TALK * 20), None, None),
        (CUT + raised(NO_SPACE), "disk-full", None),
        # lines below an exception are of its message, but for a logger's
        (raised("RuntimeError: step failed") + OOM, "cuda-oom", None),
        (raised("RuntimeError: step failed") + f"ERROR: {OOM}", "python-error", None),
        # the last word of a log that has one writer, and no logger
        ("starting\nValueError: bad shape 3\n\n", "python-error", None),
        ("starting\nERROR: ValueError: bad shape 3\n", None, None),
        ("[2026-11-20 10:00:00] starting\n[2026-11-20 10:00:09] ValueError: bad shape 3\n", None, None),
        # what one process printed below its error shows that it went on, not what several did, and no blank lines;
        # and not where srun ends a step since a task failed
        (raised() + TALK + LIMIT, "time-limit", None),
        (TWO + raised() + TALK + LIMIT, "python-error", None),
        (SHELL + "\n" * 12, "command-not-found", None),
        (labelled("[rank0]: ", raised() + TALK) + f"{STEP_ENDED}\n[rank1]: {MISMATCH}\n", "python-error", 0),
        # the number of a spawned child is no local rank where the line has one; what one process caught, and then died of
        (labelled("[default2]:", f"{SPAWNED}\n{raised()}"), "python-error", 2),
        (EPOCH.format(0) + FULL + EPOCH.format(5) + raised(OOM, "[default1]:") + AGENT, "disk-full", 1),
        # [Rank N] is the job's where nothing shows a group that is smaller, or two processes of one number
        (waits(0, 1, 3), "collective-timeout", 2),
        (waits(0, 1, 3).replace("[Rank", "[PG ID 0 PG GUID 0(default_pg) Rank"), "collective-timeout", 2),
        (waits(0, 1, 3).replace("[Rank", GROUP), "collective-timeout", None),
        (waits(0, 1, 3, numel=(3, 10)), "collective-timeout", 2),
        (waits(0, 1, 3, numel=(0, 40)), "collective-timeout", 2),
        (waits(0, 1, 3, numel=(40, 20)).replace("ALLGATHER", "_REDUCE_SCATTER_BASE"), "collective-timeout", None),
        (waits(0, 1, 3, of=8), "collective-timeout", None),
        (waits(0, 1, 3, 4), "collective-timeout", None),
        (waits(0, 1, 3) + waits(1), "collective-timeout", 2),
        (waits(0, 1, 3) + waits(1, seq=5000), "collective-timeout", None),
        (waits(0, 1, 3) + waits(1, minutes=11), "collective-timeout", None),
        (labelled("[rank99999999]: ", raised()), "python-error", None),
        # a line without a rank right above one with it is of that rank
        (f"{OOM}\n{waits(0, 1, 3).partition('4')[2][1:]}", "cuda-oom", 0),
        (f"{OOM}\n{TALK}{waits(0, 1, 3)}", "cuda-oom", None),
        # of a command that the shell did not find only what is printed below it shows that the script went on; no errors do
        (f"{TALK}{SHELL}", "command-not-found", None),
        (f"{TALK * 20}{SHELL}", "command-not-found", None),
        (SHELL + "ModuleNotFoundError: No module named 'torch'\n" * 8, "command-not-found", None),
        (
            TALK + raised("RuntimeError: not staged:\ncp: cannot stat 'x': No such file or directory"),
            "file-not-found",
            None,
        ),
        # a message ends at an empty line, at a stamp and at a long drawn line; a mark within its frames is no exception
        (raised("RuntimeError: step failed") + f"\n{COPY}", "python-error", None),
        (raised("RuntimeError: step failed") + f"2026-11-20 10:00:00 {COPY}", "python-error", None),
        (raised("RuntimeError: step failed") + f"{'=' * 60}\n{COPY}", "python-error", None),
        (raised("RuntimeError: step failed:") + f"-----\n{COPY}", "file-not-found", None),
        (raised("RuntimeError: step failed") + f"ValueError: no data\n{COPY}", "python-error", None),
        (raised("ValueError: bad keys:") + "key 1\n" + raised(NO_SPACE), "python-error", None),
        (
            raised() * 2
            + f"\nDuring handling of the above exception, another exception occurred:\n\n{raised(NO_SPACE)}",
            "python-error",
            None,
        ),
        (f"starting\n{CUT}    main()\nthanks\nclosing\n", None, None),
        # what a logger shows of an exception below WARNING level may be dealt with; a header alone shows no error
        ("starting\nINFO:root:KeyError: 'x'\n", None, None),
        ("INFO:root:" + raised(NO_SPACE, "INFO:root:"), None, None),
        ("starting\nTraceback (most recent call last):\n", None, None),
        ("starting\nValueError: bad shape 3\nclosing the files\n", None, None),
        (
            'starting\n  "message": "ValueError: bad shape 3",\nclosing\n',
            "python-error",
            None,
        ),
        # what may be an error's line, or a small part of a log, ends a program only where next to nothing follows it
        ("starting\nError: object 'x' not found\n", None, None),
        ("Error in f(x) : bad row\n" + "row 3 was read\n" * 8, "program-error", None),
        ("Error in f(x) : bad row\n" + "row 3 was read\n" * 9, None, None),
        ("Error in f(x) : bad row\n" + f"{'0.25 ' * 100}\n" * 5, None, None),
        (f"starting\n{CUT}".replace("/x/", "/x/torch/distributed/launcher/"), "exit-code", None),
        # what was printed before the error, or by two processes, shows no survival; who excuses it, and one line of a hang, does
        (f"2026-11-20 10:09:00 ERROR {raised()}" + STEPS, "python-error", None),
        (raised() + "the cache is ready\n" + LIMIT, "python-error", None),
        (labelled("(Trainer pid=4000) ", f"step 40 loss 2\n{raised(where='load')}step 41 loss 2\n"), None, None),
        (raised() + labelled("[rank1]: ", "step 4 loss 2.1\nstep 5 loss 2.0\n"), None, None),
        # a bar, or an epoch, that ends is not the job's end, after which ranks may leave
        ("step 19/20 loss 2\nstep 20/20 loss 2\n" + PARTED, None, None),
        ("100%|#####| 20/20 [00:10<00:00, 4.2it/s]\n" + PARTED, "peer-lost", None),
        ("Epoch [1/3], Step [20/20], Loss: 2.0\n" + PARTED, "peer-lost", None),
        # R's error is written at once, and what it printed before only as it ends: so far above, and no farther
        (f"{NO_PACKAGE}{ROWS * 8}Execution halted\n", "module-not-found", None),
        (f"{NO_PACKAGE}{ROWS * 16}Execution halted\n", "program-error", None),
        # of a launcher's line only its own words count, and of torchelastic's table an entry with a rank
        (f"starting\n> {AGENT}\n", None, None),
        (f"step 1 loss 2.0\n{ROOT_CAUSE}", None, None),
        (f"step 1 loss 2.0\n{ROOT_CAUSE}  rank      : 3 (local_rank: 3)\n", "exit-code", 3),
        (f"step 1 loss 2.0\n{ROOT_CAUSE}  rank      : 3 (local_rank: 3)\n  exitcode  : -9 (pid: 42)\n", "killed", 3),
    ],
)
def test_the_cause_and_the_first_rank_of_a_log(log: str, cause: str | None, rank: int | None) -> None:
    found = diagnose(log, classifier=False)
    assert (found.cause.id, found.first_failure.rank) == (cause, rank)
    assert (found.first_failure.text or "") != "Loading: shard 3"


@pytest.mark.parametrize("below", ["cleaning up", "0.25 " * 450])
def test_of_the_rank_that_was_waited_for_the_last_line_of_its_work_is_quoted(below: str) -> None:
    waited = "".join(watchdog(rank, f"[rank{rank}]: ") for rank in (1, 2, 3))
    assert (
        "rank 0 meanwhile: saving the table"
        in diagnose(f"[rank0]: saving the table\n[rank0]: {below}\n{waited}").reasons
    )


def test_what_follows_by_a_clock_that_is_behind_came_at_no_time_before() -> None:
    found = judged(f"[rank1]: [2026-11-27 10:29:59] {LOST}", f"[rank0]: [2026-11-27 10:30:00] {OOM}")
    assert [(item.cause, item.delay) for item in found.cascade] == [("peer-lost", None)]


@pytest.mark.parametrize("cut", range(1, 12))
def test_lines_are_counted_alike_wherever_their_log_is_cut(cut: int) -> None:
    lines = zip("010011200210", (0, 1, 2, 9, 10, 11, 30, 31, 32, 33, 34, 50), strict=True)
    tallies = [Tally(2, shift=1) for _ in range(3)]
    for at, (label, place) in enumerate(lines):
        tallies[0].add(label.encode(), place)
        tallies[1 if at < cut else 2].add(label.encode(), place)
    whole, first, then = (LineGroup((), 2, *tally.packed()) for tally in tallies)
    first.join(then)
    assert (first.labels, first.burst, first.stretch) == (whole.labels, whole.burst, whole.stretch)
