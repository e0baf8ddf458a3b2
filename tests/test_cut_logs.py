"""What a log shows counts, though its end is missing: a cut table, a cut traceback, a restart that got no further."""

import pytest

from builders import watchdog
from slurmdoctor import diagnose

pytestmark = pytest.mark.usefixtures("golden_verdicts")

ENTRY = """\
[{number}]:
  time      : 2026-11-21_09:{time}
  host      : node1
  rank      : {rank} (local_rank: {rank})
  exitcode  : {code}
  error_file: <N/A>
  traceback : To enable traceback see: https://pytorch.org/docs/stable/elastic/errors.html
"""
RULE = "-" * 60 + "\n"
ROOT = "Root Cause (first observed failure):\n"
RAISED = (
    "torch.distributed.elastic.multiprocessing.errors.ChildFailedError: \n" + "=" * 60 + "\ntrain.py FAILED\n" + RULE
)
RESTART = """\
ERROR:torch.distributed.elastic.multiprocessing.api:failed (exitcode: -9) local_rank: 1 (pid: 11277) of binary: /usr/bin/python
INFO:torch.distributed.elastic.agent.server.api:[default] Worker group FAILED. 3/3 attempts left; will restart worker group
INFO:torch.distributed.elastic.agent.server.api:[default] Rendezvous complete for workers. Result:
  restart_count=1
  group_world_size=1
  global_ranks=[0, 1]

INFO:torch.distributed.elastic.agent.server.api:[default] Starting worker group
"""
CUT = """\
Traceback (most recent call last):
  File "/code/train.py", line 60, in main
    tokenizer = load(name)
  File "/usr/lib/python3.11/site-packages/transformers/utils/hub.py", line 278, in cached_file
    file = cached_files(path_or_repo_id=name)
"""
RETRIED = (
    "'[Errno 101] Network is unreachable' thrown while requesting HEAD https://huggingface.co/org/model/resolve/main/vocab.json\n"
    "Retrying in 1s [Retry 1/5].\n"
)
OLD_RESTART = """\
[ERROR] 2026-05-21 23:18:16,219 local_elastic_agent: [default] Worker group failed
Traceback (most recent call last):
  File "/opt/conda/lib/python3.7/site-packages/torchelastic/agent/server/local_elastic_agent.py", line 190, in _monitor_workers
    if self._process_context.join(timeout=-1):
Exception:

[INFO] 2026-05-21 23:18:16,220 api: [default] Worker group FAILED. 3/3 attempts left; will restart worker group
[INFO] 2026-05-21 23:18:46,502 api: [default] Starting worker group
"""
WATCHDOG = watchdog(
    0, "  what():  [PG ID 1 PG GUID 1 Rank 0] Process group watchdog thread terminated with exception: ", 1, "BROADCAST"
)
BROKEN = "run.sh: line 45: --disable_tqdm: command not found\n"
REFUSED = """\
[rank1]: Traceback (most recent call last):
[rank1]:   File "/code/train.py", line 34, in main
[rank1]:     dist.barrier()
[rank1]: torch.distributed.DistBackendError: NCCL error in: NCCLUtils.cpp:77, remote process exited or there was a network error, NCCL version 2.21.5
[rank1]: ncclRemoteError: A call failed possibly due to a network error or a remote process exiting prematurely.
[rank1]: Last error:
[rank1]: socketPollConnect: connect returned Connection refused, exceeded error retry count (35)
srun: error: node2: task 1: Exited with exit code 1
srun: Terminating StepId=4711.0
slurmstepd: error: *** STEP 4711.0 ON node1 CANCELLED AT 2026-10-20T20:38:36 ***
srun: error: node1: task 0: Terminated
"""
ABORTED = """\
srun: error: node1: task 0: Exited with exit code 1
/app/run.sh: line 197: 2985003 Aborted                 (core dumped) "${COMMAND[@]}"
srun: error: node2: task 1: Exited with exit code 134
node2:2985003:2985024 [0] misc/socket.cc:50 NCCL WARN socketProgress: Connection closed by remote peer node1<45074>
[rank1]:[E ProcessGroupNCCL.cpp:583] [Rank 1] To avoid data inconsistency, we are taking the entire process down.
[rank1]:[E ProcessGroupNCCL.cpp:1414] [PG 0 Rank 1] Process group watchdog thread terminated with exception: NCCL error: remote process exited or there was a network error, NCCL version 2.20.5
"""
TABLE = RAISED + "Failures:\n" + ENTRY.format(number=1, time="02:58", rank=3, code="1 (pid: 303)") + RULE + ROOT
NO_CODE = ENTRY.format(number=0, time="02:58", rank=1, code="").split("  exitcode")[0]
LATE = RAISED + ROOT + ENTRY.format(number=0, time="21:34", rank=0, code="1 (pid: 300)")
EARLY = RAISED + ROOT + ENTRY.format(number=0, time="20:43", rank=4, code="1 (pid: 304)")
AGENT = (
    "ERROR:torch.distributed.elastic.multiprocessing.api:failed (exitcode: 1) local_rank: 3 (pid: 519) of binary: /usr/bin/python\n"
    "Traceback (most recent call last):\n"
    '  File "/usr/lib/python3.11/site-packages/torch/distributed/elastic/agent/server/api.py", line 920, in _exit_barrier\n'
    "    store_util.barrier(\n"
)
THROWN = "terminate called after throwing an instance of 'c10::DistBackendError'\n"
WAITED = (
    "[rank0]: Traceback (most recent call last):\n"
    "[rank0]: RuntimeError: [Rank 0]: Ranks 6 failed to pass monitoredBarrier in 180000 ms\n"
    "E1112 08:46:19.073000 1397 torch/distributed/elastic/multiprocessing/api.py:833] failed (exitcode: -8) local_rank: 6 "
    "(pid: 3694) of binary: /usr/bin/python\n"
)
EPOCH = "Epoch: [2][{:>4}/1563]\tTime  0.473 ( 0.692)\tData  0.099 ( 0.110)\tLoss 4.1394e+00\n"
EPOCHS = "".join(map(EPOCH.format, (0, 10, 20, 30)))


def steps(last: int) -> str:
    return "".join(f"iteration {step}/ {max(100, last)} | lm loss: 2.{step}\n" for step in range(10, last + 1))


CASES: dict[str, tuple[str, str | None, dict[str, object]]] = {
    "a root whose exit code is cut off": (TABLE + NO_CODE, "exit-code", {"rank": 1, "node": "node1", "code": None}),
    "of two tables the earlier failure, printed last": (LATE + EARLY, "exit-code", {"rank": 4}),
    "of two tables the earlier failure, printed first": (EARLY + LATE, "exit-code", {"rank": 4}),
    "a restart without a step": (RESTART, "killed", {"code": -9}),
    "a restart that goes on": (RESTART + steps(39), None, {"verdict": "unknown"}),
    "a restart that comes to its end": (RESTART + steps(100), None, {"verdict": "no-failure"}),
    "a restart from its checkpoint": (OLD_RESTART + EPOCHS, None, {"verdict": "unknown"}),
    "a cut traceback": ("loading the tokenizer\n" + CUT, "python-error", {"confidence": "low"}),
    "a cut traceback below its cause": (RETRIED + CUT, "offline", {"confidence": "low"}),
    "a cut traceback far below a cause": (RETRIED + "tokenizer loaded\n" * 200 + CUT, "python-error", {}),
    "a traceback above steps": (CUT + steps(199), None, {"verdict": "no-failure"}),
    "a launcher's cut traceback": (AGENT, "exit-code", {}),
    "the shell's line after a failure": (THROWN + WATCHDOG + BROKEN, "collective-timeout", {}),
    "the shell's line alone": ("training\n" + BROKEN, "command-not-found", {}),
    "a signal before those that waited": (WAITED, "segfault", {"signal": "SIGFPE", "rank": 6}),
    "an abort for a lost peer": (ABORTED, "exit-code", {"rank": 0, "code": 1}),
    "a step cancelled after a task failed": (REFUSED, "nccl-transport", {}),
}


@pytest.mark.parametrize("name", CASES)
def test_what_the_log_shows_counts(name: str) -> None:
    log, cause, more = CASES[name]
    found = diagnose(log)
    first, end = found.first_failure, found.exit
    shown = {"code": end.code, "signal": end.signal, "rank": first.rank, "node": first.node}
    shown |= {"verdict": found.verdict, "confidence": found.cause.confidence}
    assert (found.cause.id, shown) == (cause, {**shown, **more})
    assert cause is None or found.verdict == "failed"
