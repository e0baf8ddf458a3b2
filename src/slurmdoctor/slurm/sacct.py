"""The tables of sacct, aligned or with `|`. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import lru_cache

from msgspec.structs import replace

from slurmdoctor.model import FAILED, RUNNING, WAITING, JobRecord, Quote, Step, expand_nodes, from_sacct
from slurmdoctor.slurm.values import gpus, plain, seconds, size, stamp, used, whole


def read_sacct(text: str, name: str = "sacct") -> list[JobRecord]:
    """All jobs of a sacct table. Of a job with several rows (resized, requeued) the last one counts."""
    jobs: dict[str, JobRecord] = {}
    steps: dict[str, dict[str, Step]] = {}
    for row, quote in _rows(text, name):
        ident = row.get("JobID") or row.get("JobIDRaw") or ""
        job, _, step = ident.partition(".")
        if not job:
            continue
        if step:
            steps.setdefault(job, {})[step] = step_of(step, row, quote)
        else:
            steps[job] = {} if job in jobs else steps.get(job, {})
            jobs[job] = of_sacct(job, row, quote)
    return [replace(info, steps=tuple(steps.get(job, {}).values())) for job, info in jobs.items()]


def read_places(text: str, separator: str) -> list[JobRecord]:
    """What a table says of where jobs wrote to. Its last field holds no line end; others may: a job's command line, say."""
    head, _, body = text.lstrip().partition("\n")
    separator = separator if separator in head else "|"
    header = head.strip().split(separator)
    found: list[JobRecord] = []
    cells = body.split(separator)
    row: list[str] = []
    for cell in cells:
        if len(row) + 1 < len(header):
            row.append(cell)
            continue
        last, _, rest = cell.partition("\n")
        named = dict(zip(header, [*row, last], strict=True))
        found.append(of_sacct(named.get("JobID", "").strip(), named, Quote("sacct", 0, "")))
        row = [rest]
    return found


def _rows(text: str, name: str) -> Iterable[tuple[dict[str, str], Quote]]:
    header: list[str] = []
    spans: list[tuple[int, int]] = []
    for number, line in enumerate(text.splitlines(), 1):
        if re.match(r"\s*JobID(?:Raw)?\b", line):
            piped = "|" in line
            header = [cell.strip() for cell in (line.split("|") if piped else line.split())]
            spans = []
        elif line.lstrip().startswith(("JobId=", "NodeName=")):  # scontrol's words below, in one saved file
            header = []
        elif header and not spans and re.fullmatch(r"[-\s]+", line) and "-" in line:
            spans = [(m.start(), m.end()) for m in re.finditer(r"-+", line)]
        elif header and line.strip():
            cells = [line[a:b] for a, b in spans] if spans else line.split("|")
            row = {key: cell.strip() for key, cell in zip(header, cells, strict=False) if key}
            yield row, Quote(name, number, " ".join(line.replace("|", " ").split()))


def _state(row: Mapping[str, str]) -> tuple[str | None, int | None]:
    return _read_state(row.get("State") or "")


@lru_cache(maxsize=1024)  # of a million rows
def _read_state(text: str) -> tuple[str | None, int | None]:
    words = text.split()
    by = re.search(r"by (\d+)", text)
    state = words[0].rstrip("+") if words else None
    full = next((s for s in (*FAILED, *RUNNING, *WAITING) if state and len(state) >= 6 and s.startswith(state)), state)
    return full, whole(by[1]) if by else None


def step_of(ident: str, row: Mapping[str, str], quote: Quote) -> Step:
    state, by = _state(row)
    return Step(
        ident,
        row.get("JobName", ""),
        state,
        from_sacct(row.get("ExitCode", "")),
        tuple(expand_nodes(plain(row.get("NodeList")) or "")),
        _elapsed(row),
        used(row.get("MaxRSS")),
        by,
        quote,
    )


def of_sacct(job: str, row: Mapping[str, str], quote: Quote) -> JobRecord:
    state, by = _state(row)
    array = re.fullmatch(r"(\d+)_(?:(\d+)|\[.*\])", job)
    het = re.fullmatch(r"(\d+)\+(\d+)", job)
    nodes = tuple(expand_nodes(plain(row.get("NodeList")) or ""))
    count = whole(row.get("NNodes") or row.get("AllocNodes")) or len(nodes) or None
    return JobRecord(
        id=job,
        name=row.get("JobName") or None,
        state=state,
        cancelled_by=by,
        uid=whole(row.get("UID")),
        user=plain(row.get("User")),
        account=plain(row.get("Account")),
        cluster=plain(row.get("Cluster")),
        gpus=gpus(row.get("AllocTRES")),
        submitted=stamp(row.get("Submit")),
        reason=plain(row.get("Reason")),
        exit=from_sacct(row.get("ExitCode", "")),
        derived=from_sacct(row.get("DerivedExitCode", "")),
        nodes=nodes,
        num_nodes=count,
        num_tasks=whole(row.get("NTasks")),
        time_limit=seconds(row.get("Timelimit") or row.get("TimeLimit")),
        elapsed=_elapsed(row),
        start=stamp(row.get("Start")),
        end=stamp(row.get("End")),
        restarts=whole(row.get("Restarts")),
        req_mem=_requested(row.get("ReqMem"), count),
        partition=row.get("Partition") or None,
        work_dir=plain(row.get("WorkDir")),
        std_out=plain(row.get("StdOut")),
        std_err=plain(row.get("StdErr")),
        raw_id=plain(row.get("JobIDRaw")),
        submit_line=plain(row.get("SubmitLine")),
        comment=plain(row.get("Comment")),
        array_job=array[1] if array else None,
        array_task=whole(array[2]) if array else None,
        het_offset=whole(het[2]) if het else None,
        quotes={"sacct": quote, "state": quote, "exit": quote},
        sources=frozenset({"sacct"}),
    )


def _elapsed(row: Mapping[str, str]) -> int | None:
    return whole(row["ElapsedRaw"]) if row.get("ElapsedRaw") else seconds(row.get("Elapsed"))


def _requested(text: str | None, nodes: int | None) -> int | None:
    """ReqMem a node: `4Gn` is, `400Mc` is a core and not used here, `800M` is the whole job's."""
    if not text or text.endswith("c"):
        return None
    if text.endswith("n"):
        return size(text[:-1])
    total = size(text)
    return total // nodes if total and nodes else total
