"""What a log shows counts, though its end is missing: a cut table, a cut traceback, a restart that got no further."""

from __future__ import annotations

from typing import Any

import pytest

import slurmdoctor

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


def diagnosed(log: str) -> dict[str, Any]:
    return slurmdoctor.diagnose(log).to_dict()


def test_the_root_of_a_table_counts_though_its_exit_code_is_cut_off() -> None:
    table = RAISED + "Failures:\n" + ENTRY.format(number=1, time="02:58", rank=3, code="1 (pid: 303)")
    root = ENTRY.format(number=0, time="02:58", rank=1, code="").split("  exitcode")[0]
    found = diagnosed(table + RULE + ROOT + root)
    assert (found["cause"]["id"], found["first_failure"]["rank"], found["first_failure"]["node"]) == (
        "exit-code",
        1,
        "node1",
    )
    assert found["exit"]["code"] is None


def test_of_two_tables_the_earlier_failure_was_first() -> None:
    late = ROOT + ENTRY.format(number=0, time="21:34", rank=0, code="1 (pid: 300)")
    early = ROOT + ENTRY.format(number=0, time="20:43", rank=4, code="1 (pid: 304)")
    for log in (RAISED + late + RAISED + early, RAISED + early + RAISED + late):
        assert diagnosed(log)["first_failure"]["rank"] == 4


RESTART = """\
ERROR:torch.distributed.elastic.multiprocessing.api:failed (exitcode: -9) local_rank: 1 (pid: 11277) of binary: /usr/bin/python
INFO:torch.distributed.elastic.agent.server.api:[default] Worker group FAILED. 3/3 attempts left; will restart worker group
INFO:torch.distributed.elastic.agent.server.api:[default] Rendezvous complete for workers. Result:
  restart_count=1
  group_world_size=1
  global_ranks=[0, 1]

INFO:torch.distributed.elastic.agent.server.api:[default] Starting worker group
"""


def test_a_restart_that_shows_no_step_does_not_undo_the_failure() -> None:
    found = diagnosed(RESTART)
    assert (found["verdict"], found["cause"]["id"], found["exit"]["code"]) == ("failed", "killed", -9)


@pytest.mark.parametrize(("last", "verdict"), [(39, "unknown"), (100, "no-failure")])
def test_a_restart_that_goes_on_does_and_is_healthy_where_it_comes_to_its_end(last: int, verdict: str) -> None:
    steps = "".join(f"iteration {step}/ 100 | lm loss: 2.{step}\n" for step in range(10, last + 1))
    assert diagnosed(RESTART + steps)["verdict"] == verdict


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


def test_a_log_that_ends_inside_a_traceback_failed() -> None:
    found = diagnosed("loading the tokenizer\n" + CUT)
    assert (found["verdict"], found["cause"]["id"], found["cause"]["confidence"]) == ("failed", "python-error", "low")


def test_what_stands_right_above_a_cut_traceback_names_its_cause() -> None:
    found = diagnosed(RETRIED + CUT)
    assert (found["cause"]["id"], found["cause"]["confidence"]) == ("offline", "low")
    assert diagnosed(RETRIED + "tokenizer loaded\n" * 200 + CUT)["cause"]["id"] == "python-error"


def test_a_cut_traceback_that_somebody_went_on_after_is_none_of_these() -> None:
    steps = "".join(f"iteration {step}/ 100 | lm loss: 2.{step}\n" for step in range(10, 200))
    assert diagnosed(CUT + steps)["verdict"] == "no-failure"


def test_a_launchers_cut_traceback_tells_no_cause() -> None:
    agent = (
        "ERROR:torch.distributed.elastic.multiprocessing.api:failed (exitcode: 1) local_rank: 3 (pid: 519) of binary: /usr/bin/python\n"
        "Traceback (most recent call last):\n"
        '  File "/usr/lib/python3.11/site-packages/torch/distributed/elastic/agent/server/api.py", line 920, in _exit_barrier\n'
        "    store_util.barrier(\n"
    )
    assert diagnosed(agent)["cause"]["id"] == "exit-code"


OLD_RESTART = """\
[ERROR] 2026-05-21 23:18:16,219 local_elastic_agent: [default] Worker group failed
Traceback (most recent call last):
  File "/opt/conda/lib/python3.7/site-packages/torchelastic/agent/server/local_elastic_agent.py", line 190, in _monitor_workers
    if self._process_context.join(timeout=-1):
Exception:

[INFO] 2026-05-21 23:18:16,220 api: [default] Worker group FAILED. 3/3 attempts left; will restart worker group
[INFO] 2026-05-21 23:18:46,502 api: [default] Starting worker group
"""


def test_a_restart_that_trains_on_from_its_checkpoint_is_not_accused() -> None:
    steps = "".join(
        f"Epoch: [2][{step:>4}/1563]\tTime  0.473 ( 0.692)\tData  0.099 ( 0.110)\tLoss 4.1394e+00\n"
        for step in (0, 10, 20, 30)
    )
    assert diagnosed(OLD_RESTART + steps)["verdict"] == "unknown"


WATCHDOG = (
    "  what():  [PG ID 1 PG GUID 1 Rank 0] Process group watchdog thread terminated with exception: [Rank 0] Watchdog caught "
    "collective operation timeout: WorkNCCL(SeqNum=1, OpType=BROADCAST, NumelIn=9, NumelOut=9, Timeout(ms)=600000) ran for "
    "600081 milliseconds before timing out.\n"
)
BROKEN = "run.sh: line 45: --disable_tqdm: command not found\n"


def test_what_the_shell_says_afterwards_explains_nothing_before_it() -> None:
    assert diagnosed("terminate called after throwing an instance of 'c10::DistBackendError'\n" + WATCHDOG + BROKEN)[
        "cause"
    ]["id"] == ("collective-timeout")
    assert diagnosed("training\n" + BROKEN)["cause"]["id"] == "command-not-found"


def test_a_rank_that_a_signal_ended_comes_before_those_that_waited_for_it() -> None:
    waited = "[rank0]: RuntimeError: [Rank 0]: Ranks 6 failed to pass monitoredBarrier in 180000 ms\n"
    agent = "E1112 08:46:19.073000 1397 torch/distributed/elastic/multiprocessing/api.py:833] failed (exitcode: -8) local_rank: 6 (pid: 3694) of binary: /usr/bin/python\n"
    found = diagnosed("[rank0]: Traceback (most recent call last):\n" + waited + agent)
    assert (found["cause"]["id"], found["exit"]["signal"], found["first_failure"]["rank"]) == ("segfault", "SIGFPE", 6)


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


def test_a_step_that_is_cancelled_after_a_task_failed_was_not_cancelled_by_a_person() -> None:
    assert diagnosed(REFUSED)["cause"]["id"] == "nccl-transport"


ABORTED = """\
srun: error: node1: task 0: Exited with exit code 1
/app/run.sh: line 197: 2985003 Aborted                 (core dumped) "${COMMAND[@]}"
srun: error: node2: task 1: Exited with exit code 134
node2:2985003:2985024 [0] misc/socket.cc:50 NCCL WARN socketProgress: Connection closed by remote peer node1<45074>
[rank1]:[E ProcessGroupNCCL.cpp:583] [Rank 1] To avoid data inconsistency, we are taking the entire process down.
[rank1]:[E ProcessGroupNCCL.cpp:1414] [PG 0 Rank 1] Process group watchdog thread terminated with exception: NCCL error: remote process exited or there was a network error, NCCL version 2.20.5
"""


def test_who_aborted_for_a_lost_peer_was_not_first() -> None:
    found = diagnosed(ABORTED)
    assert (found["cause"]["id"], found["first_failure"]["rank"], found["exit"]["code"]) == ("exit-code", 0, 1)
