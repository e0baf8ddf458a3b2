"""A wrapper yields to what it wraps: the inner error is the cause, of the process in which it began; helpers without a parent are victims."""

import pytest

from builders import cause_of
from slurmdoctor import diagnose

HEADER = "Traceback (most recent call last):\n"
PACKAGES = "/opt/venv/lib/python3.11/site-packages"
PIPES = "/usr/lib/python3.11/multiprocessing"


def first_error(*log: str) -> str | None:
    return diagnose("".join(log)).first_failure.text


def frame(file: str, function: str, code: str) -> str:
    return f'  File "{file}", line 12, in {function}\n    {code}\n'


def raised(error: str, *frames: str) -> str:
    return HEADER + ("".join(frames) or frame("/scratch/demo/train.py", "main", "run()")) + error + "\n"


def spawned(child: str, index: int) -> str:
    """torch.multiprocessing.spawn's error of a child."""
    join = frame(f"{PACKAGES}/torch/multiprocessing/spawn.py", "join", "raise ProcessRaisedException(msg, i, pid)")
    kind = "torch.multiprocessing.spawn.ProcessRaisedException"
    return raised(f"{kind}: \n\n-- Process {index} terminated with the following error:\n{child}\n", join)


def loaded(error: str, kind: str, worker: int = 3) -> str:
    """An error in a DataLoader's worker, as its rank raises it again."""
    reraise = frame(f"{PACKAGES}/torch/_utils.py", "reraise", "raise exception")
    outer = raised(f"{kind}: Caught {kind.split('.')[-1]} in DataLoader worker process {worker}.", reraise)
    return outer + "Original " + raised(error, frame("/scratch/demo/data.py", "__getitem__", "return load(path)"))


def task(inner: str, kind: str = "KeyError") -> str:
    """A Ray task's error, raised again at the driver: the task's frames have no header."""
    get = frame(f"{PACKAGES}/ray/_private/worker.py", "get_objects", "raise value.as_instanceof_cause()")
    head = f"ray.exceptions.RayTaskError({kind}): ray::Trainer.fit() (pid=71, ip=10.4.0.12, actor_id=7e01)"
    return raised(head + "\n" + inner.removeprefix(HEADER).rstrip("\n"), get)


def orphan(error: str, code: str = "self = reduction.pickle.load(from_parent)") -> str:
    """A child that was being started when its parent went away."""
    begin = frame(f"{PIPES}/spawn.py", "spawn_main", "exitcode = _main(fd, parent_sentinel)")
    return raised(error, begin, frame(f"{PIPES}/spawn.py", "_main", code))


NO_IMAGE = "PIL.UnidentifiedImageError: cannot identify image file '/data/x.jpg'"
NO_SYMBOL = "ImportError: /opt/venv/lib/flash_attn_2_cuda.so: undefined symbol: _ZNK3c1011StorageImpl27throw_data_ptr_access_errorEv"
WRAPPED = {
    "spawn": (spawned(raised(NO_IMAGE), 2), 2, None),
    "spawn of PyTorch 1.5": (spawned(raised(NO_IMAGE), 2).replace("torch.multiprocessing.spawn.Process", ""), 2, None),
    "DataLoader": (loaded(NO_IMAGE, "PIL.UnidentifiedImageError"), None, None),
    "DataLoader in spawn": (spawned(loaded(NO_IMAGE, "PIL.UnidentifiedImageError"), 1), 1, None),
    "Ray": (task(raised(NO_IMAGE)), None, "10.4.0.12"),
    "Ray in Ray": (task(task(raised(NO_IMAGE))), None, "10.4.0.12"),
    "all three": (task(spawned(loaded(NO_IMAGE, "PIL.UnidentifiedImageError"), 1)), 1, "10.4.0.12"),
}


@pytest.mark.parametrize(("log", "rank", "node"), WRAPPED.values(), ids=WRAPPED)
def test_what_a_wrapper_holds_is_the_cause_where_it_was_raised(log: str, rank: int | None, node: str | None) -> None:
    found = diagnose(log)
    first = found.first_failure
    assert (found.cause.id, first.rank, first.node, first.text) == ("data-corrupt", rank, node, NO_IMAGE)


def test_of_an_error_that_no_rule_knows_the_frames_are_those_of_the_task() -> None:
    log = task(raised("KeyError: 'a'", frame("/scratch/demo/w.py", "update", 'x["a"]')))
    assert "/scratch/demo/w.py" in diagnose(log).first_failure.traceback[0]


def test_a_message_that_goes_on_with_a_traceback_is_a_wrapper_whatever_its_class() -> None:
    log = raised("RuntimeError: The actor with name Worker failed to import on the worker:\n\n" + raised(NO_SYMBOL))
    late = task(raised("AssertionError: failed to get register_center_actor: V9z_register_center in []"))
    assert cause_of(log, "\n", late) == "library-not-found"


@pytest.mark.parametrize("first", ["RuntimeError: no shards", "AssertionError", "KeyError: 'end:'"])
def test_a_traceback_below_a_whole_message_is_another_error(first: str) -> None:
    assert first_error(raised(first), "\n", raised("ValueError: late")) == first


@pytest.mark.parametrize("pool", ["concurrent.futures.process._", "multiprocessing.pool.", "multiprocess.pool."])
def test_a_pool_s_remote_traceback_is_the_cause(pool: str) -> None:
    held = f'{pool}RemoteTraceback: \n"""\n{raised("KeyError: 7", frame("/scratch/demo/w.py", "one", "x[7]"))}"""\n\n'
    outer = "The above exception was the direct cause of the following exception:\n\n" + raised("KeyError: 7")
    assert "/scratch/demo/w.py" in diagnose(held + outer).first_failure.traceback[0]


SEMAPHORE = frame(f"{PIPES}/synchronize.py", "__setstate__", "SemLock._rebuild(*s)")
ORPHANS = {
    "truncated": orphan("_pickle.UnpicklingError: pickle data was truncated"),
    "empty": orphan("EOFError: Ran out of input"),
    "semaphore": orphan(
        "FileNotFoundError: [Errno 2] No such file or directory", f"self = load()\n{SEMAPHORE.rstrip()}"
    ),
    "pipe": raised("EOFError", frame(f"{PIPES}/connection.py", "_recv", "raise EOFError")),
    "queue": raised(
        "BrokenPipeError: [Errno 32] Broken pipe", frame(f"{PIPES}/connection.py", "_send", "write(fd, b)")
    ),
}


@pytest.mark.parametrize("helpers", ORPHANS.values(), ids=ORPHANS)
def test_a_helper_whose_parent_is_gone_is_a_victim(helpers: str) -> None:
    assert first_error(spawned(raised("KeyError: 'lr'"), 0), helpers) == "KeyError: 'lr'"
    assert first_error(helpers, raised("KeyError: 'lr'")) == "KeyError: 'lr'"
    alone = diagnose(helpers).cause
    assert (alone.id, alone.confidence) == ("peer-lost", "low")


@pytest.mark.parametrize(
    ("log", "cause"),
    [
        (raised("EOFError: Ran out of input", frame(f"{PACKAGES}/torch/serialization.py", "_legacy_load", "f.load()")), "checkpoint-corrupt"),
        (orphan("ModuleNotFoundError: No module named 'apex'"), "module-not-found"),
        (orphan("AttributeError: Can't get attribute 'Net' on <module '__mp_main__'>"), "python-error"),
    ],
    ids=["checkpoint", "module", "attribute"],
)  # fmt: skip
def test_an_error_of_the_child_s_own_is_no_victim_s(log: str, cause: str) -> None:
    assert cause_of(log) == cause


NEXTFLOW = "ERROR ~ Error executing process > 'ALIGN (3)'\n\nCaused by:\n  {why}\n\nCommand executed:\n\n  align x\n\nCommand error:\n  {error}\n"
HYDRA = "Error executing job with overrides: []\nError in call to target 'demo.Net':\n{error}\nfull_key: model\n"
DAEMON = "{error}\nA daemon (pid 4411) died unexpectedly with status 1 while attempting\nto launch so we are aborting\n"


@pytest.mark.parametrize(
    ("log", "error", "cause"),
    [
        (NEXTFLOW, "ModuleNotFoundError: No module named 'pysam'", "module-not-found"),
        (NEXTFLOW, raised("ValueError: no reads").replace("\n", "\n  "), "python-error"),
        (HYDRA, "TypeError(\"Net.__init__() got an unexpected keyword argument 'width'\")", "usage-error"),
        (HYDRA, "OutOfMemoryError('CUDA out of memory. Tried to allocate 2.00 GiB.')", "cuda-oom"),
        (HYDRA, "ValueError('heads must divide width')", "python-error"),
        (DAEMON, "bash: orted: command not found", "command-not-found"),
        (DAEMON, "(nothing)", "program-error"),
    ],
)
def test_an_engine_or_launcher_yields_to_what_its_child_said(log: str, error: str, cause: str) -> None:
    why = "Process `ALIGN (3)` terminated with an error exit status (1)"
    assert cause_of(log.format(why=why, error=error)) == cause
