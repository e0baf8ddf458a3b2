"""The closed sets of words that verdicts, rules and readers share, and the ids of causes that the reasoning names."""

from __future__ import annotations

from typing import Final, Literal

Role = Literal["root", "cascade", "either", "confirmation", "hint"]
"""A line's place in the chain of events.

root          may start a failure
cascade       follows another failure; the answer only where no root is found
either        the order of events decides
confirmation  a later witness (slurmstepd's oom_kill, NODE FAIL) of what killed a silent rank
hint          noise unless the job failed and nothing better explains it
"""

Confidence = Literal["high", "medium", "low"]
Verdict = Literal["failed", "no-failure", "unknown"]
RetryAdvice = Literal["as-is", "elsewhere", "after-fix", "resume", "unknown"]
ExitClass = Literal[
    "ok", "python-error", "usage-error", "oom-killed", "killed", "terminated", "segfault", "abort",
    "bus-error", "interrupted", "time-limit", "not-executable", "not-found", "other", "unknown",
]  # fmt: skip

Trait = Literal[
    "generic", "waited", "timed-out", "link", "scheduler", "system", "struck", "hides-hang", "ends-stalled",
    "summary", "exit-only", "like-oom", "killed-process", "is-ending", "own-signal", "blames-node",
    "proven-by-script", "whole-job", "catch-all", "own-words", "parting",
    "of-machine",
]  # fmt: skip
"""What a cause is like, as far as inference treats such causes the same (`traits:` of a cause's file).

generic           an exit alone establishes it; a more specific cause beside it is the better answer
waited            printed by a rank that waited for another one, or lost its connection to it
timed-out         a wait for other ranks that ended by a timeout
link              what other ranks print when a process or a node goes away
scheduler         what Slurm or a person does to a job, often after it failed or hung
system            reported by the system, often without naming the rank that was hit
struck            printed by, or about, a process that the system ended or whose hardware failed
hides-hang        a rank that hung without printing anything may be the reason for it
ends-stalled      how Slurm or a person ends a job that may have stood still
summary           its cascade repeats an earlier failure of the same process
exit-only         established by an exit status alone; Slurm's record knows better what ended the process
like-oom          how a process may look that the kernel killed for lack of memory
killed-process    its process ends by SIGKILL
is-ending         the cause is the exit itself
own-signal        its process ends by the signal of the same name
blames-node       a node that Slurm reports as bad confirms it
proven-by-script  a mistake in the batch script can explain it completely
catch-all         its rules match what no other cause's rules match
own-words         its lines are a program's own last words: the lines beside them tell what failed
parting           ranks may print it as they leave one another, after the work was done
of-machine        a node, a link or storage can bring it about in any program: a survey looks for its node
whole-job         it ends the job as a whole: the exit that Slurm recorded is no process's own
"""

RankBasis = Literal[
    "as-written", "path", "task", "pid", "bus", "node-and-local-rank", "one-node", "lone-launcher", "group-rank"
]
"""How a rank is known.

as-written           the line names it
path                 the file's name does: `rank-3.log`
task                 a Slurm task is a rank, and srun's line or the file's name (`job-3.out`) names the task
pid                  another line names the rank of this process id
node-and-local-rank  another line names the rank of this local rank on this node
one-node             the log shows that the job ran on one node, where a local rank is the rank
lone-launcher        one launcher prints, and nothing shows a second node: the local rank is taken for the rank
group-rank           a watchdog's message says [Rank N], and nothing shows a process group smaller than the job
"""

Standing = Literal["first", "suspect", "collateral", "waiting", "silent", "finished"]
"""A rank's state in the failure.

first       failed first, or with others at once
suspect     did not come to the collective that the others waited in
collateral  failed or was stopped because of another rank
waiting     waited for another rank
silent      no error and no exit of it is in the log
finished    printed that it completed
"""
RunStateKind = Literal["finished", "hung", "progressing"]
SignalKind = Literal[
    "progress", "finished", "survived", "attempt", "start", "begun", "saving", "saved", "resumed", "members", "fact"
]
"""What a line tells of the job's state (`rules/signals.yaml`); facts have a file of their own."""

ExitReporter = Literal["step", "agent", "table", "launcher", "box", "parent", "job"]
"""Who reports the end of a process.

step      Slurm, of the tasks of a step
agent     torchelastic's agent, of its own children
table     torchelastic's table of failures, whose agent saw them end and says of each whether it was the first
launcher  another launcher, of the processes that it started
box       the same, in boxes in the order of ranks: that one is above another means nothing
parent    a shell or a program, of a child that need not be a rank
job       a batch system other than Slurm, of the whole job
"""


EXIT_CODE: Final = "exit-code"
"""The answer where a process failed and nothing says why."""
PYTHON_ERROR: Final = "python-error"
PROGRAM_ERROR: Final = "program-error"
"""A traceback that no rule knows."""
COLLECTIVE_TIMEOUT: Final = "collective-timeout"
"""The sequence numbers that name a silent culprit are those of collectives."""
ID_TIMEOUT: Final = "nccl-id-timeout"
"""Its ranks wait for rank 0, and for no other one."""
PEER_LOST: Final = "peer-lost"
"""Who lost a peer did not hold up the others."""
HANG: Final = "hang"
"""What a time limit is that ended a job without progress."""
TIME_LIMIT: Final = "time-limit"
PREEMPTED: Final = "preempted"
CANCELLED: Final = "cancelled"
SIGTERM: Final = "sigterm"
"""How Slurm, or a person, ends a job: each leaves other traces in Slurm's record."""
HOST_OOM: Final = "host-oom"
"""Slurm's accounting knows of it where the log shows a SIGKILL only."""
NODE_FAILURE: Final = "node-failure"
"""Slurm names the node."""
KILLED: Final = "killed"
ABORT: Final = "abort"
COMMAND_NOT_FOUND: Final = "command-not-found"
USAGE_ERROR: Final = "usage-error"
"""Exits of launchers that stop what outlives a failure, and of programs that never started, are read with care."""

STEP_CANCELLED: Final = "cancelled/step"
ABORTED: Final = "program-error/mpi-abort"
"""The rule of a program that stops itself: why, it printed before."""
MPI_ABORT: Final = "MPI_Abort"
"""The witness of a program that stopped itself: its launcher then kills the other ranks."""
"""The rule of srun's word that a step ends: it says so too when one of the step's tasks has failed."""
TASK_FAILED: Final = "sigterm/task-failed"
"""The rule of Slurm's word that it ends a step because one of its tasks has failed."""
NOT_STOPPED: Final = "exit-code/not-stopped"
"""The task that Slurm did not have to stop then. No line is its: it follows from those of the others."""
SOCKET_FALLBACK: Final = "nccl-init/socket-fallback"
"""The rule of NCCL's word that it takes sockets: as it should be, unless other nodes have InfiniBand."""
