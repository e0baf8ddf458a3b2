"""Flight recorder dumps: what is read of them, what is refused, and who held up the job; dumps composed in PyTorch's exact format."""

import json
import os
import pickle
from pathlib import Path
from random import Random
from typing import Any

import pytest
from benchmarks.hangs import FAULTS, Layout, simulate, torch_pickle

from cases import inside, run
from slurmdoctor.readers.dump_files import beside, read_dumps
from slurmdoctor.readers.flight_dumps import Dump, RefusedError, load_all, parse
from slurmdoctor.readers.flight_recorder import Graph, graph_of, lines_of

PUBLIC = {"gpu_error_1st": (12, 14), "gpu_error_2nd": (9, 14), "lock_gil_1st": (9, 14), "lock_gil_2nd": (10, 15)}
"""Sets of nvidia-resiliency-ext (tests/attribution/unit/fr_traces), and the ranks in which the faults were made."""
NEST = b"".join(b"X\x01\0\0\0a\x86" for _ in range(19_000))
HOSTILE = {
    "a command": pickle.dumps(os.system, 2),
    "a reduction": b"\x80\x02cos\nsystem\n(X\x04\0\0\0true\x85R.",
    "a later protocol": pickle.dumps({"entries": []}, 4),
    "a far place in the memo": b"\x80\x02}r\xff\xff\xff\x7f.",
    "tuples in tuples by the memo": b"\x80\x02NN\x86q\0" + b"h\0h\0\x86q\0" * 64 + b".",
    "tuples in tuples": b"\x80\x02" + b"K\1" + b"K\1\x86" * 100_000 + b".",
    "a key that takes deep": b"\x80\x02}X\x01\0\0\0a" + NEST + b"Ns.",
    "deep lists": b"\x80\x02" + b"]" * 100_000 + b"a" * 99_999 + b".",
    "a string longer than the file": b"\x80\x02X\xff\xff\xff\x7fabc.",
    "an end in the middle": torch_pickle({"version": "2.10", "entries": []})[:-3],
    "nothing below": b"\x80\x02u.",
    "no steps": b"\x80\x02.",
    "another type": torch_pickle({"version": "2.10", "entries": "none"}),
    "a later format": torch_pickle({"version": "3.0", "entries": []}),
    "deep JSON": b"[" * 100_000,
    "JSON that is none": b'{"entries": 5}',
    "nothing": b"",
    "text": b"iteration 5 / 10\n",
}


def status(enqueued: int, completed: int) -> dict[str, int]:
    return {"last_enqueued_collective": enqueued, "last_started_collective": -1, "last_completed_collective": completed}


def record(seq: int, name: str = "nccl:all_reduce", size: int = 8, **more: Any) -> dict[str, Any]:
    own = {
        "record_id": seq,
        "pg_id": 0,
        "process_group": ("0", "default_pg"),
        "collective_seq_id": seq,
        "profiling_name": name,
    }
    own |= {"input_sizes": [[size]], "input_dtypes": ["Float"], "state": "scheduled", "retired": False}
    return own | {"time_created_ns": 1_790_000_000 * 10**9, "timeout_ms": 600_000} | more


def dump(
    ranks: int, enqueued: int, completed: int, entries: list[dict[str, Any]], version: str = "2.10"
) -> dict[str, Any]:
    config = {"0": {"name": "0", "desc": "default_pg", "ranks": str(list(range(ranks)))}}
    return {
        "version": version,
        "pg_config": config,
        "pg_status": {"0": status(enqueued, completed)},
        "entries": entries,
    }


def graph(folder: Path, dumps: dict[int, Any], form: str = "pickle") -> Graph:
    for rank, content in dumps.items():
        data = torch_pickle(content) if form == "pickle" else json.dumps(content).encode()
        (folder / f"nccl_trace_rank_{rank}").write_bytes(data)
    return read_dumps(sorted(str(path) for path in folder.iterdir()))[0]


@pytest.mark.parametrize("name", HOSTILE)
def test_what_is_no_plain_dump_is_refused(name: str) -> None:
    with pytest.raises(RefusedError):
        parse(HOSTILE[name])


def test_a_refused_dump_is_a_note_and_the_others_count(tmp_path: Path) -> None:
    for rank in range(4):
        (tmp_path / f"nccl_trace_rank_{rank}").write_bytes(
            torch_pickle(dump(5, 3 - (rank == 2), 2, [record(3)] * (rank != 2)))
        )
    (tmp_path / "nccl_trace_rank_4").write_bytes(HOSTILE["a command"])
    found = run("dumps", str(tmp_path)).stdout.decode()
    assert "wait for rank 2, which waits for nobody" in found
    assert "1 could not be read" in found


@pytest.mark.parametrize("form", ["pickle", "json"])
@pytest.mark.parametrize("version", ["2.1", "2.4", "2.9", "2.10", "2.11"])
def test_who_never_came_is_named(tmp_path: Path, version: str, form: str) -> None:
    found = graph(
        tmp_path,
        {rank: dump(4, 3 - (rank == 2), 2, [record(3)] if rank != 2 else [], version) for rank in range(4)},
        form,
    )
    assert found.culprits == (2,)


def test_dumps_without_counts_tell_by_their_records(tmp_path: Path) -> None:
    done = [record(seq, state="completed", retired=True) for seq in (1, 2)]
    found = graph(tmp_path, {rank: [*done, *([record(3)] if rank != 1 else [])] for rank in range(4)})
    assert found.culprits == (1,)
    assert "(seq 3, sizes [[8]] Float)" in lines_of(found)[0]


def test_a_rank_without_a_dump_is_told_from_one_that_is_waited_for(tmp_path: Path) -> None:
    found = graph(tmp_path, {rank: dump(4, 3, 2, [record(3)]) for rank in range(3)})
    assert (found.culprits, found.absent) == ((), (3,))
    assert lines_of(found)[-1] == "flight recorder: 3 ranks wait for rank 3, of which there is no dump"


def test_of_a_part_of_the_dumps_no_absent_rank_is_named(tmp_path: Path) -> None:
    found = graph(tmp_path, {rank: dump(16, 3, 2, [record(3)]) for rank in range(8)})
    assert (found.named, found.absent) == ((), tuple(range(8, 16)))
    assert lines_of(found)[-1] == "flight recorder: too many dumps are absent to tell who held up the others"


@pytest.mark.parametrize("wrong", [record(3, "nccl:broadcast"), record(3, size=9), record(3, input_dtypes=["Half"])])
def test_the_few_that_entered_another_operation_are_named(tmp_path: Path, wrong: dict[str, Any]) -> None:
    found = graph(tmp_path, {rank: dump(4, 3, 2, [wrong if rank == 1 else record(3)]) for rank in range(4)})
    assert found.culprits == (1,)


def test_sizes_that_may_differ_are_no_mismatch(tmp_path: Path) -> None:
    found = graph(tmp_path, {rank: dump(4, 3, 2, [record(3, "nccl:all_to_all", size=rank)]) for rank in range(4)})
    assert found.culprits == found.circle == ()
    assert [one.ranks for one in found.entered] == [(0, 1, 2, 3)]


def test_ranks_that_send_to_each_other_are_a_circle(tmp_path: Path) -> None:
    found = graph(tmp_path, {rank: dump(2, 0, 0, [record(0, f"nccl:send {rank}->{1 - rank}")]) for rank in range(2)})
    assert found.circle == (0, 1)


def test_the_culprit_is_shown_with_what_called_it(tmp_path: Path) -> None:
    frames = [
        {"name": "all_reduce", "filename": "/env/torch/distributed/c10d.py", "line": 9},
        {"name": "save", "filename": "/home/u1/train.py", "line": 55},
    ]
    last = record(2, state="completed", retired=True, frames=frames)
    found = graph(
        tmp_path, {rank: dump(4, 3 - (rank == 2), 2, [last, *([record(3)] if rank != 2 else [])]) for rank in range(4)}
    )
    assert lines_of(found)[-1].endswith(
        "rank 2 entered nothing after all_reduce (seq 2 of group 0), called by save (train.py:55)"
    )


def test_a_dump_of_another_day_is_left_out(tmp_path: Path) -> None:
    old = record(3, time_created_ns=1_789_900_000 * 10**9)
    for rank in range(4):
        one = dump(4, 3, 2, [old if rank == 1 else record(3)])
        (tmp_path / f"nccl_trace_rank_{rank}").write_bytes(torch_pickle(one))
    found, notes = read_dumps([str(path) for path in tmp_path.iterdir()])
    assert found.absent == (1,)
    assert [note.code for note in notes] == ["dumps-stale"]
    none, notes = read_dumps([str(path) for path in tmp_path.iterdir()], "2026-10-05T12:00:00+00:00")
    assert not none.dumps
    assert notes[0].values["count"] == 4


def test_dumps_are_found_beside_the_log_and_where_it_names_them(tmp_path: Path) -> None:
    for folder, name in (("run", "nccl_trace_rank_0"), ("run", "rank_0"), ("far", "here_1"), ("far", "there_1")):
        (tmp_path / folder).mkdir(exist_ok=True)
        (tmp_path / folder / name).write_bytes(b"")
    log = tmp_path / "run" / "job.log"
    log.write_text(f"[rank1]: Finished writing Flight Recorder debug info to {tmp_path}/far/here_1\n")
    assert [Path(path).name for path in beside([str(log)])] == ["nccl_trace_rank_0", "here_1"]


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("seed", range(4))
def test_nobody_else_is_accused_in_a_simulated_hang(tmp_path: Path, fault: str, seed: int) -> None:
    rng = Random(seed)
    layout = Layout(2, 2, 4)
    hang = simulate(layout, {rng.randrange(layout.size): fault}, rng)
    for rank in range(layout.size):
        if fault != "died" or rank not in hang.faults:
            (tmp_path / f"nccl_trace_rank_{rank}").write_bytes(hang.dump(rank, only_active=bool(seed % 2)))
    found = graph_of(
        {one.rank: one for one in load_all([str(path) for path in tmp_path.iterdir()]) if isinstance(one, Dump)}
    )
    named = {*(found.culprits or found.absent)}
    assert named <= hang.culprits
    assert named or fault in ("hung", "error")


def test_many_dumps_are_read_by_several_processes_with_one_result(tmp_path: Path) -> None:
    for rank in range(80):
        one = dump(80, 3 - (rank == 7), 2, [record(3)] if rank != 7 else [])
        (tmp_path / f"nccl_trace_rank_{rank}").write_bytes(torch_pickle(one))
    paths = [str(path) for path in tmp_path.iterdir()]
    assert lines_of(read_dumps(paths, jobs=2)[0]) == lines_of(read_dumps(paths)[0])


@pytest.mark.skipif("FR_TRACES" not in os.environ, reason="needs the public dumps: FR_TRACES=.../fr_traces")
@pytest.mark.parametrize("name", PUBLIC)
def test_the_public_dumps_give_the_faults_that_were_made(name: str, tmp_path: Path) -> None:
    folder = Path(os.environ["FR_TRACES"]) / name
    with inside(tmp_path):
        Path("job.log").write_text("iteration 5/ 10 | loss: 1.0\n")
        found = json.loads(run("diagnose", "job.log", "--dumps", str(folder), "--format", "json").stdout)
    assert tuple(found["first_failure"]["ranks"]) == PUBLIC[name]
    assert found["first_failure"]["rank"] is None
