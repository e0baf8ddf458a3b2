"""One bad file costs its own line in the coverage, never the diagnosis; named directly it gets one clear line."""

import gzip
import inspect
import io
import math
import os
import resource
import socket
import struct
import subprocess
import sys
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest

import cases
import slurmdoctor
from slurmdoctor.input import ends_of, opening, regular_files, streams
from slurmdoctor.input.files import expand
from slurmdoctor.input.opening import open_sources
from slurmdoctor.input.sources import Source, Text
from slurmdoctor.input.streams import kind_of
from slurmdoctor.model import JobRecord, SourceFormat, UserError
from slurmdoctor.ranks import labels as label_module
from slurmdoctor.ranks.labels import LabelReader
from slurmdoctor.slurm import logs

OOM = "[rank3]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.\n"
PLAIN = "".join(f"step {n} loss 0.{n}\n" for n in range(40))
PERHAPS_SEVERAL = "several files were read as one job; if they are not, name one"


def refused(done: cases.Called, *words: str) -> None:
    """One line on standard error that says these words, and exit status 2."""
    cases.one_line(done, *words)
    assert done.stdout == b""
    assert b"internal error" not in done.stderr


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A job's folder with a log that tells its failure."""
    here = tmp_path / "job"
    here.mkdir()
    (here / "good.log").write_text(PLAIN + OOM)
    return here


def _socket(place: Path) -> None:
    here = os.getcwd()  # noqa: PTH109
    os.chdir(place.parent)  # the path of a socket must be short
    try:
        with socket.socket(socket.AF_UNIX) as one:
            one.bind(place.name)
    finally:
        os.chdir(here)


BAD: dict[str, tuple[str, Callable[[Path], object], str]] = {
    "dangling link": ("latest.log", lambda at: at.symlink_to("gone.out"), "is a link to a file that is not there"),
    "circular link": ("latest.log", lambda at: at.symlink_to(at.name), "is a link that leads to itself"),
    "damaged": ("old.log.gz", lambda at: at.write_bytes(b"\x1f\x8b\x08\0damaged"), "cannot decompress"),
    "not text": ("core.log", lambda at: at.write_bytes(bytes(range(256)) * 40), "not a text log"),
    "pipe": ("live.log", os.mkfifo, ""),
    "device": ("zero.log", lambda at: at.symlink_to("/dev/zero"), "is a device or a file of the kernel's"),
    "socket": ("agent.log", _socket, "is a socket, not a log"),
}


@pytest.mark.parametrize("kind", BAD)
@pytest.mark.parametrize("how", ["folder", "glob", "names"])
def test_a_bad_file_among_others_costs_a_note(
    kind: str, how: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(opening, "_PATIENCE", 0.1)
    name, make, _ = BAD[kind]
    make(folder / name)
    names = list(map(str, sorted(folder.iterdir())))
    found = slurmdoctor.diagnose({"folder": [str(folder)], "glob": [f"{folder}/*"], "names": names}[how])
    assert found.cause.id == "cuda-oom"
    assert found.coverage.notes == (f"1 file was not read: 1 {kind} ({name})",)


@pytest.mark.parametrize("kind", [kind for kind in BAD if kind != "pipe"])
def test_a_bad_file_by_itself_gets_one_line(kind: str, tmp_path: Path) -> None:
    name, make, words = BAD[kind]
    make(tmp_path / name)
    refused(cases.run("diagnose", tmp_path / name), words, name)
    refused(cases.run("diagnose", tmp_path), words, name)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read all")
def test_a_file_and_a_folder_without_permission_cost_a_note(folder: Path) -> None:
    (folder / "secret.log").write_text(OOM)
    (folder / "secret.log").chmod(0)
    (folder / "private").mkdir(mode=0)
    (note,) = slurmdoctor.diagnose(folder).coverage.notes
    assert note == "2 files were not read: 2 without permission (private, secret.log)"
    refused(cases.run("diagnose", folder / "secret.log"), "permission denied")


def test_many_bad_files_are_counted_by_kind_and_the_first_are_named(folder: Path) -> None:
    for number in range(9):
        (folder / f"rank{number}.log").symlink_to("gone.out")
    BAD["damaged"][1](folder / "a\x1b]0;x\x07\n.log.gz")
    (note,) = slurmdoctor.diagnose(folder).coverage.notes
    links = "9 dangling links (rank0.log, rank1.log, rank2.log, …)"
    assert note == f"10 files were not read: {links}, 1 damaged (a .log.gz)"


def test_where_all_are_bad_one_line_tells_the_first(tmp_path: Path) -> None:
    for name in ("a.log", "b.log"):
        (tmp_path / name).symlink_to("gone.out")
    refused(cases.run("diagnose", tmp_path), "none of 2 files can be read", "a.log is a link to a file that is not")


def test_a_misspelt_name_is_an_error_among_others_too(folder: Path) -> None:
    refused(cases.run("diagnose", folder / "good.log", folder / "goood.log"), "no such file", "did you mean")


def test_a_log_under_two_names_is_read_once(folder: Path) -> None:
    (folder / "latest.log").symlink_to("good.log")
    (folder / "elsewhere.log").symlink_to(folder.parent / "other.log")
    (folder.parent / "other.log").write_text(PLAIN)
    assert expand([folder]).paths == [str(folder / "elsewhere.log"), str(folder / "good.log")]


def test_links_in_a_circle_end(folder: Path) -> None:
    (folder / "one").symlink_to(folder)
    (folder / "two").symlink_to(folder)
    for job in (folder, f"{folder}/**", f"{folder}/**/*.log", f"{folder}/**/**/*.log"):
        assert expand([job]).paths == [str(folder / "good.log")]


def test_folders_may_be_nested_deeper_than_python_calls(folder: Path) -> None:
    deep = folder / "/".join("d" * 300) / "deep.log"
    deep.parent.mkdir(parents=True)
    deep.write_text(PLAIN)
    usual = sys.getrecursionlimit()
    sys.setrecursionlimit(len(inspect.stack()) + 100)
    try:
        assert expand([folder]).paths == [str(folder / "good.log"), str(deep)]
        assert expand([f"{folder}/**/*.log"]).paths == [str(deep), str(folder / "good.log")]
    finally:
        sys.setrecursionlimit(usual)


def test_a_log_that_slurm_names_and_nobody_may_read_is_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What Slurm knows of the job still makes a verdict."""
    log = tmp_path / "job.out"
    log.touch()
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    assert logs.find(JobRecord("7", std_out=str(log))) == ([], [f"log {log} (not there, or not readable)"])


# ── more files than may be open ──


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Few bytes are too large to be kept in memory, or worth a process."""
    monkeypatch.setattr(opening, "_SMALL", 1000)
    monkeypatch.setattr("slurmdoctor.search.scanner.WORTH", 10_000)


def _a_log_a_rank(folder: Path, ending: str) -> None:
    """Logs that are too large to be kept in memory; one tells the failure."""
    text = b"".join(b"worker %d says hello\n" % n for n in range(200))
    for rank in range(40):
        mine = text + OOM.replace("rank3", f"rank{rank}").encode() * (rank == 31)
        (folder / f"rank_{rank:02}.{ending}").write_bytes(gzip.compress(mine) if ending.endswith("gz") else mine)


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("ending", ["log", "log.gz"])
def test_a_process_may_open_fewer_files_than_the_job_left(ending: str, tmp_path: Path) -> None:
    _a_log_a_rank(tmp_path, ending)
    usual = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (len(os.listdir("/proc/self/fd")) + 20, usual[1]))  # noqa: PTH208
    try:
        found = slurmdoctor.diagnose(tmp_path)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, usual)
    assert found.first_failure.rank == 31
    assert (found.coverage.files, found.coverage.notes) == (40, ())


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("jobs", [1, 3])
def test_files_are_opened_anew_in_every_process(jobs: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _a_log_a_rank(tmp_path, "log")
    usual = slurmdoctor.diagnose(tmp_path)
    monkeypatch.setattr(regular_files, "_MOST", 2)
    assert slurmdoctor.diagnose(tmp_path, jobs=jobs) == usual


def test_of_many_logs_a_bounded_number_of_lines_is_looked_at_for_labels(monkeypatch: pytest.MonkeyPatch) -> None:
    looked_at: list[int] = []
    monkeypatch.setattr(label_module, "learn", lambda lines, labels: looked_at.append(len(lines)) or SourceFormat())  # type: ignore[func-returns-value]
    sources = [Text.source("".join(f"worker {n} says hello\n" for n in range(5000)))] * 2000
    label_module.learn_formats(sources[:20], LabelReader(()))
    assert sum(looked_at) > 20 * 2000  # of few logs much is looked at
    label_module.learn_formats(sources, LabelReader(()))
    assert 2000 * 20 < sum(looked_at[20:]) < 2000 * 100


# ── files that change while they are read ──


def _opened(path: Path, monkeypatch: pytest.MonkeyPatch) -> Source:
    """A large file, closed to make room for others."""
    monkeypatch.setattr(regular_files, "_MOST", 1)
    other = path.with_name("other.log")
    other.write_text(PLAIN * 200)
    path.write_text(PLAIN * 200)
    source, last = open_sources([path, other]).sources
    last.peek(10)
    return source


def _replace(path: Path) -> None:
    path.with_name("new").write_text("another run's\n" * 9000)
    path.with_name("new").replace(path)


@pytest.mark.usefixtures("small")
def test_a_fault_in_another_process_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file that vanishes is found out by who reads it: here, by a process that was forked."""
    _a_log_a_rank(tmp_path, "log")
    monkeypatch.setattr(regular_files, "_MOST", 2)
    opened = open_sources([tmp_path])
    (tmp_path / "rank_30.log").unlink()
    found = slurmdoctor.diagnose(opened.sources, jobs=3)
    assert found.coverage.notes == ("1 file was read only in part: 1 vanished (rank_30.log)",)


@pytest.mark.parametrize(
    ("change", "why"),
    [(Path.unlink, "vanished"), (_replace, "replaced"), (lambda path: os.truncate(path, 100), "shrunk")],
)
def test_a_file_that_changes_is_read_so_far(
    change: Callable[[Path], None], why: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = _opened(tmp_path / "job.log", monkeypatch)
    change(tmp_path / "job.log")
    assert sum(block.size for block in source.blocks()) <= 100
    assert source.fault
    assert source.fault.why == why


def test_of_a_damaged_log_is_read_what_is_there_and_the_note_says_so(folder: Path) -> None:
    packed = gzip.compress((PLAIN * 400 + OOM).encode() + os.urandom(20_000))
    (folder / "cut.log.gz").write_bytes(packed[:-9000])
    found = slurmdoctor.diagnose(folder)
    assert found.coverage.lines > 40 * 400
    assert found.coverage.notes == ("1 file was read only in part: 1 damaged (cut.log.gz)", PERHAPS_SEVERAL)


# ── what is named and is no regular file ──


BY_SHELL = [
    "{} <(gzip -c good.log)",
    "cat good.log | {} /dev/stdin",
    "mkfifo live; (sleep 1; cat good.log >live) & {} live",
]


@pytest.mark.parametrize("script", BY_SHELL)
def test_what_a_shell_hands_over_is_read(script: str, folder: Path) -> None:
    command = script.format(f"'{sys.executable}' -m slurmdoctor diagnose")
    done = subprocess.run(["bash", "-c", command], cwd=folder, text=True, capture_output=True, timeout=60, check=True)
    assert "cuda-oom" in done.stdout


def test_a_pipe_that_nobody_writes_to_is_not_waited_for_among_logs(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(opening, "_PATIENCE", 0.1)
    os.mkfifo(folder / "live")
    (folder / "slurm-4711.out").write_text(OOM)
    done = cases.run("diagnose", *sorted(folder.iterdir()))
    assert b"live is a pipe" in done.stdout or b"1 pipe (live)" in done.stdout
    done = cases.run("diagnose", folder / "good.log", "-o", folder / "live")
    assert b"live cannot be written: No such device or address" in done.stderr


def test_dev_null_is_an_empty_log() -> None:
    done = cases.run("diagnose", os.devnull)
    assert (done.returncode, b"the log is empty" in done.stdout) == (0, True)


@pytest.mark.skipif(not Path("/proc/self/mem").exists(), reason="needs /proc")
@pytest.mark.parametrize("name", ["mem", "status", "pagemap"])
def test_a_file_of_the_kernel_is_refused_also_behind_a_link(name: str, folder: Path) -> None:
    refused(cases.run("diagnose", f"/proc/self/{name}"), "a file of the kernel's")
    (folder / "b.log").symlink_to(f"/proc/self/{name}")
    assert b"cuda-oom" in cases.run("diagnose", folder).stdout


@pytest.mark.skipif(not Path("/proc/self/mem").exists(), reason="needs /proc")
def test_a_file_that_tells_no_size_is_read_to_a_limit(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(regular_files, "_OF_KERNEL", ("/nothing/",))
    (folder / "b.log").symlink_to("/proc/self/pagemap")
    (first, *_) = slurmdoctor.diagnose(folder).coverage.notes
    assert first == "1 file was read only in part: 1 too large (b.log)"


@pytest.mark.parametrize("words", [("lint",), ("diagnose", "a.log", "--script"), ("diagnose", "a.log", "--slurm-info")])
def test_a_pipe_is_no_script_and_no_record(folder: Path, words: tuple[str, ...]) -> None:
    os.mkfifo(folder / "pipe")
    first, *more = words
    refused(cases.run(first, *(folder / one if one == "a.log" else one for one in more), folder / "pipe"), "is a pipe")


# ── links of others ──


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
@pytest.mark.parametrize("through", ["link", "path"])
def test_what_slurm_knows_of_a_log_the_user_has_said(tmp_path: Path, through: str) -> None:
    theirs, log = tmp_path / "theirs.log", tmp_path / "slurm-10.out"
    theirs.write_text(OOM)
    log.symlink_to(theirs)
    os.lchown(log, 1234, -1)
    told = log if through == "link" else theirs
    record = f"JobId=10 JobName=x\n   UserId=kim(1234)\n   JobState=FAILED ExitCode=1:0\n   StdOut={told}\n"
    (tmp_path / "job.txt").write_text(record)
    words = ("diagnose", "--job", "10", "--slurm-info", tmp_path / "job.txt")
    done = cases.run(*words)
    assert b"out of memory" not in done.stdout + done.stderr
    os.chown(theirs, 1234, -1)
    assert b"cuda-oom" in cases.run(*words).stdout


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
@pytest.mark.parametrize(
    ("links_owner", "files_owner", "reader", "read"),
    [
        (1234, 0, 0, False),  # a user has root read root's file
        (1234, 4321, 0, False),
        (1234, 4321, 4321, False),
        (1234, 1234, 0, True),  # latest.log
        (0, 1234, 0, True),  # /home -> /gpfs/home
        (0, 1234, 4321, True),
        (1234, 4321, 1234, True),
    ],
)
@pytest.mark.parametrize("parent", [True, False])
def test_a_link_counts_if_it_is_roots_ones_own_or_the_files_owners(
    tmp_path: Path, links_owner: int, files_owner: int, reader: int, read: bool, parent: bool
) -> None:
    there, link = tmp_path / "there" / "a.log", tmp_path / "link"
    there.parent.mkdir()
    there.write_text(OOM)
    os.chown(there, files_owner, -1)
    link.symlink_to(there.parent if parent else there)
    os.lchown(link, links_owner, -1)
    for folder in (tmp_path, *tmp_path.parents):
        if folder.stat().st_mode & 0o777 == 0o700:
            folder.chmod(0o755)
    path = str(link / "a.log" if parent else link)
    os.seteuid(reader)
    try:
        if read:
            assert slurmdoctor.diagnose([path]).cause.id == "cuda-oom"
        else:
            with pytest.raises(UserError, match="a link of a user who does not own what it leads to: name the log"):
                slurmdoctor.diagnose([path])
    finally:
        os.seteuid(0)
    assert ends_of(path) == ((OOM if read else ""), "") or reader


def test_what_is_replaced_between_two_looks_is_not_read(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "a.log").symlink_to(folder / "good.log")
    real = os.lstat
    monkeypatch.setattr(os, "lstat", lambda path: real(folder if str(path).endswith("a.log") else path))
    with pytest.raises(UserError, match="was replaced while it was read"):
        slurmdoctor.diagnose([folder / "a.log"])


# ── bombs ──


def test_what_decompresses_without_end_is_read_to_a_limit(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streams, "MOST", 200_000)
    (folder / "bomb.log.gz").write_bytes(gzip.compress(b"step 1 loss 2\n" * 100_000))
    found = slurmdoctor.diagnose(folder)
    assert found.coverage.bytes < 300_000
    assert found.coverage.notes == ("1 file was read only in part: 1 too large (bomb.log.gz)", PERHAPS_SEVERAL)


# ── text with holes, and what is no text ──


@pytest.mark.parametrize(("place", "hole"), [(0, 4096), (0, 3_000_000), (2000, 100_000), (300_000, 4096)])
@pytest.mark.parametrize("sparse", [True, False])
def test_a_hole_of_nul_bytes_is_no_reason_to_refuse_a_log(place: int, hole: int, sparse: bool, tmp_path: Path) -> None:
    text = (PLAIN * (place // len(PLAIN) + 1))[:place].encode()
    log = tmp_path / "job.log"
    with log.open("wb") as file:
        file.write(text if sparse else text + b"\0" * hole)
        file.seek(place + hole)
        file.write((PLAIN + OOM).encode())
    assert slurmdoctor.diagnose(log).cause.id == "cuda-oom"


def _tar() -> bytes:
    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode="w") as tar:
        tar.addfile(tarfile.TarInfo("a.log"))
    return data.getvalue()


NO_TEXT = {
    "elf": b"\x7fELF\x02\x01\x01" + b"\0" * 9 + b"\x03\0>\0" * 50,
    "zip": b"PK\x03\x04" + b"\0" * 100,
    "npy": b"\x93NUMPY\x01\0v\0{'descr': '<f4'}" + b" " * 60 + b"\n" + b"\0" * 4000,
    "pickle": b"\x80\x04\x95\x10\0\0\0\0\0\0\0\x8c\x05hello\x94.",
    "png": b"\x89PNG\r\n\x1a\n" + b"\0" * 100,
    "jpeg": b"\xff\xd8\xff\xe0\0\x10JFIF",
    "tar": _tar(),
    "all zero": b"\0" * 10_000,
    "integers": struct.pack("<1000q", *range(65, 1065)),
    "floats": struct.pack("<1000f", *(math.sin(n) for n in range(1000))),
    "sparse integers": (struct.pack("<30q", *range(65, 95)) + b"\0" * 300) * 10,
}


@pytest.mark.parametrize("kind", NO_TEXT)
def test_what_is_no_text_is_refused_and_text_is_text_in_any_encoding(kind: str, tmp_path: Path) -> None:
    (tmp_path / "job.log").write_bytes(NO_TEXT[kind])
    with pytest.raises(UserError, match="not a text log"):
        open_sources([tmp_path / "job.log"])
    for encoding in ("utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-32", "latin-1"):
        assert kind_of((PLAIN + "é").encode(encoding)) != "binary"


# ── compressed logs that are damaged, cut or appended ──

TEXT = b"".join(b"%d: step %d loss 0.%d\n" % (n % 8, n, n * 7919 % 1000) for n in range(100_000))


def read(path: Path) -> bytes:
    (source,) = open_sources([str(path)]).sources
    return b"".join(block.data[: block.size] for block in source.blocks())


@pytest.mark.slow
@pytest.mark.parametrize("ending", cases.COMPRESS)
def test_of_a_cut_file_is_read_what_is_there_and_appended_parts_are_one_log(ending: str, tmp_path: Path) -> None:
    log = tmp_path / f"job.log.{ending}"
    packed = cases.COMPRESS[ending](TEXT)
    log.write_bytes(packed[: len(packed) * 9 // 10])
    found = read(log)
    assert len(found) > len(TEXT) // 2
    assert TEXT.startswith(found)
    log.write_bytes(packed * 2)
    assert read(log) == TEXT * 2


def test_without_a_decoder_the_error_names_the_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    module = "compression.zstd" if sys.version_info >= (3, 14) else "backports.zstd"
    monkeypatch.setitem(sys.modules, module, None)
    (tmp_path / "job.log.zst").write_bytes(cases.COMPRESS["zst"](TEXT))
    with pytest.raises(UserError) as error:
        read(tmp_path / "job.log.zst")
    assert "pip install backports.zstd" in error.value.mend
