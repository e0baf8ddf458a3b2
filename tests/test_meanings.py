"""`slurmdoctor explain` finds what people mean: their words, codes, signals, exceptions, lines of a log."""

from __future__ import annotations

from functools import cache

import pytest

from cases import one_line, run
from slurmdoctor.knowledge import builtin, load
from slurmdoctor.model import Knowledge, UserError
from slurmdoctor.report.explain import meanings

MEANT = {
    "OOM": {"cuda-oom", "host-oom"},
    "Out of memory": {"cuda-oom", "host-oom"},
    "GPU OOM": {"cuda-oom"},
    "CUDA out of memory": {"cuda-oom"},
    "OOM killer": {"host-oom"},
    "gpu memory": {"cuda-oom"},
    "nccl timeout": {"collective-timeout", "nccl-id-timeout"},
    "NCCL error": {"nccl-init", "nccl-transport", "collective-timeout", "nccl-id-timeout"},
    "timeout": {"time-limit", "collective-timeout", "nccl-id-timeout", "rendezvous-timeout", "host-unreachable"},
    "address in use": {"address-in-use"},
    "[Errno 98]": {"address-in-use"},
    "137": {"killed", "host-oom"},
    "exit code 137": {"killed", "host-oom"},
    "exited with exit code 137": {"killed", "host-oom"},
    "exit status 139": {"segfault"},
    "143": {"sigterm"},
    "127": {"command-not-found"},
    "exit 137": {"killed", "host-oom"},
    "rc=139": {"segfault"},
    "0:9": {"killed", "host-oom"},
    "255": {"exit-code"},
    "timed out": {"time-limit", "collective-timeout", "nccl-id-timeout", "rendezvous-timeout", "host-unreachable"},
    "GPU fell off the bus": {"gpu-fault"},
    "signal 9": {"killed", "host-oom"},
    "SIGKILL": {"killed", "host-oom"},
    "sigbus": {"bus-error", "shm-exhausted"},
    "segfault": {"segfault"},
    "Segmentation Fault": {"segfault"},
    "module not found": {"module-not-found"},
    "ModuleNotFoundError": {"module-not-found"},
    "module not found error": {"module-not-found"},
    "ImportError": {"module-not-found", "library-not-found"},
    "KeyError": {"python-error"},
    "no space left": {"disk-full"},
    "No space left on device": {"disk-full"},
    "quota": {"disk-full"},
    "NODE_FAIL": {"node-failure"},
    "lost node": {"node-failure"},
    "connection refused": {"host-unreachable"},
    "what does SIGTERM mean": {"sigterm"},
    "xid": {"gpu-fault"},
    "my loss is NaN": {"nan"},
    "stuck": {"hang"},
    "cuda-oom/torch": {"cuda-oom"},
    "python-error/traceback": {"python-error"},
    "RuntimeError: CUDA error: an illegal memory access was encountered": {"cuda-error"},
    "bash: line 1: python: command not found": {"command-not-found"},
}


@cache
def known() -> Knowledge:
    return load((builtin(),))


@pytest.mark.parametrize("name", MEANT)
def test_people_mean(name: str) -> None:
    assert {cause.id for cause in meanings(name, known())} == MEANT[name]


def test_an_exception_that_only_the_examples_show_is_found() -> None:
    assert {"collective-timeout", "nccl-init"} <= {cause.id for cause in meanings("DistBackendError", known())}


@pytest.mark.parametrize(
    ("name", "mend"), [("segmentaton fault", "did you mean `segmentation fault`?"), ("cuda-om", "`cuda-oom`")]
)
def test_a_slip_is_told(name: str, mend: str) -> None:
    with pytest.raises(UserError) as error:
        meanings(name, known())
    assert mend in error.value.mend


def test_several_are_a_short_list_that_tells_them_apart() -> None:
    ran = run("explain", "out", "of", "memory")
    first, *rest = ran.stdout.decode().splitlines()
    assert ran.returncode == 0
    assert first == "`out of memory` may mean 2 causes. `slurmdoctor explain cuda-oom` shows the first."
    assert "cuda-oom  ran out of GPU memory" in rest
    assert "host-oom  ran out of host memory" in rest
    assert len(rest) < 12


def test_one_is_its_page() -> None:
    assert run("explain", "address", "in", "use").stdout == run("explain", "address-in-use").stdout


@pytest.mark.parametrize("name", ["zzzzqq", "", "--", "\x1b[2J", "x" * 9999])
def test_nonsense_is_one_line(name: str) -> None:
    one_line(run("explain", "--", name), "there is no cause")
