"""Loads PyTorch's flight recorder dumps without torch: pickles of plain data and JSON, as PyTorch 2.2 and later write them.

Nothing of a file is executed: the unpickler knows no names, and is given only bytes that `_is_plain` has walked. These build
dicts, lists, strings, numbers and pairs of strings: no tuple in a tuple, whose hash may take for ever, and no far place in the memo.
"""

from __future__ import annotations

import gc
import os
import pickle
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from io import BufferedReader, BytesIO
from typing import Any

from msgspec import MsgspecError, convert, field
from msgspec.json import decode
from msgspec.structs import replace

from slurmdoctor.input import UnreadError, open_regular
from slurmdoctor.matching import lazy
from slurmdoctor.model import MOST_RANKS, Frozen

MOST_BYTES = 16 * 1024 * 1024
"""Bytes of a dump. 2,000 records take 0.4 MB; how many are kept is the user's choice."""
MOST_DUMPS = 20_000
_MOST_STRINGS = 20_000
_WORTH = 64
"""Dumps that more than one process reads."""
_KEPT = 512
"""Records of a dump that are kept: those that are not done."""
_RANK = lazy(r"(?<!\d)(\d{1,6})(?:\.(?:json|pkl|pickle))?$")
"""A dump's name ends with the global rank."""
_GET_FAR, _PUT = rb"j..[\x00-\x0f]\x00", rb"(?:q.|r..[\x00-\x0f]\x00)"
_PLAIN = rb"[\]}(ueasN\x88\x89]*"
_STEPS = re.compile(
    rb"(?:%s(?:h.(?:h.\x86(?![qr])|h.h.h.(?!\x86|h.\x86))?|%s|%s|%s|K.|M..|J....|G.{8}|\x8a\x08.{8})){0,4096}%s"
    % (_PLAIN, 4 * _GET_FAR, _GET_FAR, _PUT, _PLAIN),
    re.DOTALL,
)
"""Steps that read no string. Four references at once are a third faster: most of a dump are its stacks."""
_AFTER_STRING = re.compile(rb"%s?(?:\x86(?![qr]))?" % _PUT, re.DOTALL)
_PEER = lazy(r"(send|recv) (\d{1,6})(?:->|<-)(\d{1,6})")


class RefusedError(Exception):
    """Why a file is no dump that can be read."""


class Frame(Frozen):
    name: str = "?"
    filename: str = "?"
    line: int = 0


class Record(Frozen):
    """One operation, as the recorder of one rank has it."""

    record_id: int = 0
    process_group: tuple[str, ...] = ()
    """Its name and its description."""
    pg_id: int = 0
    profiling_name: str = ""
    collective_seq_id: int | None = None
    seq_id: int = 0
    """The same before PyTorch 2.4."""
    p2p_seq_id: int = 0
    input_sizes: tuple[tuple[int, ...], ...] = ()
    input_dtypes: tuple[str, ...] = ()
    state: str | None = None
    retired: bool = False
    time_created_ns: int = 0
    timeout_ms: int = 0
    frames: Any = ()

    @property
    def group(self) -> str:
        return self.process_group[0] if self.process_group else str(self.pg_id)

    @property
    def seq(self) -> int:
        return self.seq_id if self.collective_seq_id is None else self.collective_seq_id

    @property
    def op(self) -> str:
        """`all_reduce` of `nccl:all_reduce`."""
        return self.profiling_name.rpartition(":")[2] or "?"

    @property
    def peer(self) -> int | None:
        """The place in its group of whom it sends to, or receives from."""
        found = _PEER.search(self.profiling_name)
        return int(found[3]) if found else None

    @property
    def stack(self) -> tuple[Frame, ...]:
        """Where it was called, innermost first."""
        try:
            return convert(self.frames, tuple[Frame, ...])
        except MsgspecError:
            return ()


class _Group(Frozen):
    desc: str = ""
    ranks: str | list[int] = ""


class _Status(Frozen):
    enqueued: int = field(default=-1, name="last_enqueued_collective")
    completed: int = field(default=-1, name="last_completed_collective")


class _Content(Frozen):
    version: Any = None
    pg_config: dict[str, _Group] = field(default_factory=dict)
    pg_status: dict[str, _Status] = field(default_factory=dict)
    entries: tuple[Record, ...] = ()
    counted: bool = False
    """Whether the recorder itself counted: `pg_status` is its own."""


class Group(Frozen, eq=False):
    """A process group: one object for all ranks that know it by one name and with the same members."""

    name: str
    ranks: tuple[int, ...] = ()
    """In their order in the group; none where the dumps do not tell."""
    desc: str = ""


class Dump(Frozen):
    """What one rank's recorder held."""

    rank: int
    path: str
    written: float
    """When the file was."""
    version: str
    groups: Mapping[str, Group]
    counts: Mapping[Group, tuple[int, int]]
    """How many collectives of each group it had enqueued, and completed."""
    counted: bool
    """Whether the recorder itself counted them: a group without a count had none."""
    pending: tuple[Record, ...]
    """The operations that were not done, the oldest first."""
    with_peers: frozenset[Group]
    """Groups in which it sent or received."""
    last: Record | None = None
    """The operation that began last, done or not."""

    @property
    def time(self) -> float | None:
        """When that was."""
        return self.last.time_created_ns / 1e9 if self.last and self.last.time_created_ns else None


_DEFAULT = Group("0", desc="default_pg")
"""The group of all ranks, where dumps do not tell of groups."""


class _Read(Frozen):
    """A dump as its process reads it, its groups not yet put together with those of others."""

    path: str
    written: float
    content: _Content
    pending: tuple[Record, ...]
    with_peers: frozenset[str]
    last: Record | None


def load_all(paths: Sequence[str], jobs: int = 1) -> Iterator[Dump | tuple[str, str]]:
    """The dumps; of a file that is none its path, and why. Many are read by `jobs` processes at once."""
    groups: dict[tuple[str, str], Group] = {}
    if jobs > 1 and len(paths) >= _WORTH and hasattr(os, "fork"):
        from multiprocessing import get_context  # here: it is slow to import, and few dumps need no helper

        with get_context("fork").Pool(jobs) as pool:
            for found in pool.imap(_read, paths, _WORTH // 8):
                yield found if isinstance(found, tuple) else _dump(found, groups)
        return
    for path in paths:
        one = _read(path)
        yield one if isinstance(one, tuple) else _dump(one, groups)


def rank_of(path: str) -> int | None:
    """The rank that a dump's name ends with."""
    found = _RANK.search(path)
    return int(found[1]) if found and int(found[1]) < MOST_RANKS else None


def _read(path: str) -> _Read | tuple[str, str]:
    was_on = gc.isenabled()
    gc.disable()  # the collector would walk through the dump several times while it is made
    try:
        if rank_of(path) is None:
            raise RefusedError("its name does not end with a rank")
        with os.fdopen(open_regular(path), "rb") as file:
            data, written = file.read(MOST_BYTES + 1), os.fstat(file.fileno()).st_mtime
        if len(data) > MOST_BYTES:
            raise RefusedError("it is larger than dumps are")
        content = parse(data)
        records = sorted(content.entries, key=lambda one: one.record_id)
        pending = tuple(one for one in records if not one.retired and one.state != "completed")[:_KEPT]
        if not content.pg_status:
            content = replace(content, pg_status=_by_records(records))
        else:
            content = replace(content, counted=True)
        last = max(records, key=lambda one: one.time_created_ns, default=None)
        with_peers = frozenset(one.group for one in records if one.peer is not None)
        return _Read(path, written, replace(content, entries=()), pending, with_peers, last)
    except (RefusedError, UnreadError) as error:
        return path, str(error)
    except OSError as error:
        return path, error.strerror or "it cannot be read"
    finally:
        if was_on:
            gc.enable()


def parse(data: bytes) -> _Content:
    """What a dump holds. Raises RefusedError."""
    try:
        if data[:1] in b"{[":
            plain: Any = decode(data, type=_Content | list[Record], strict=False)
        elif _is_plain(data):
            plain = convert(
                _Unpickler(BufferedReader(BytesIO(data), len(data))).load(), _Content | list[Record], strict=False
            )
        else:
            raise RefusedError("it is no dump of plain data")
    except (pickle.UnpicklingError, MsgspecError, MemoryError, RecursionError, ValueError) as error:
        raise RefusedError(f"it is no flight recorder dump ({str(error)[:60]})") from None
    except (TypeError, AttributeError, LookupError, EOFError, OverflowError):  # what the unpickler makes of wrong steps
        raise RefusedError("it is a damaged dump") from None
    found: _Content = _Content(entries=tuple(plain)) if isinstance(plain, list) else plain
    version = str(found.version or "")[:20]
    if version.partition(".")[0] not in ("", "2"):
        raise RefusedError(f"its format {version} is not one of PyTorch 2")
    return found


class _Unpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        raise pickle.UnpicklingError("it names code")


def _is_plain(data: bytes) -> bool:
    """Whether these are the steps of a pickle that builds nothing but what the module's text says."""
    at, strings = 2, 0
    if data[:2] != b"\x80\x02":
        return False
    while strings <= _MOST_STRINGS:
        found = _STEPS.match(data, at)
        end = found.end() if found else at
        if data[end : end + 1] == b"X":
            strings += 1
            end += 5 + int.from_bytes(data[end + 1 : end + 5], "little")
            after = _AFTER_STRING.match(data, end)
            at = after.end() if after else end
        elif end == at:
            return data[at:] == b"."
        else:
            at = end
    return False


def _by_records(records: Iterable[Record]) -> dict[str, _Status]:
    """How far each group was before PyTorch 2.5 counted it, by its name."""
    found: dict[str, _Status] = {}
    for one in records:
        if one.peer is None:
            status = found.get(one.group, _Status(one.seq - 1, one.seq - 1))
            done = max(status.completed, one.seq) if one.retired or one.state == "completed" else status.completed
            found[one.group] = _Status(max(status.enqueued, one.seq), done)
    return found


def _dump(read: _Read, known: dict[tuple[str, str], Group]) -> Dump:
    """The dump, its groups the same objects as those of other ranks."""
    content, rank = read.content, rank_of(read.path)
    assert rank is not None
    groups = {name: _group(name, one, known) for name, one in content.pg_config.items()} or {"0": _DEFAULT}
    names = _names(content)
    counts = {
        groups[name]: (status.enqueued, status.completed)
        for number, status in content.pg_status.items()
        if (name := names.get(number, number)) in groups
    }
    with_peers = frozenset(groups[name] for name in read.with_peers if name in groups)
    counted = content.counted
    version = str(content.version or "")
    return Dump(rank, read.path, read.written, version, groups, counts, counted, read.pending, with_peers, read.last)


def _names(content: _Content) -> Mapping[str, str]:
    """A group's number in the process -> its name: both rise in the order in which the groups were made."""
    if (
        not content.counted
        or len(content.pg_status) != len(content.pg_config)
        or not all(name.isdecimal() for name in (*content.pg_status, *content.pg_config))
    ):
        return {}
    return dict(zip(sorted(content.pg_status, key=int), sorted(content.pg_config, key=int), strict=True))


def _group(name: str, one: _Group, known: dict[tuple[str, str], Group]) -> Group:
    """The group, one object for all ranks of it."""
    ranks = one.ranks if isinstance(one.ranks, str) else ",".join(map(str, one.ranks))
    if (name, ranks) not in known:
        members = (int(digits) for digits in re.findall(r"\d+", ranks[: 8 * MOST_RANKS]) if len(digits) < 7)
        known[name, ranks] = Group(name, tuple(dict.fromkeys(members)), one.desc)
    return known[name, ranks]
