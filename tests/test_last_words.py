"""What each rank printed last before the others waited for it: told from the end upwards, and no farther than that takes."""

from __future__ import annotations

import pytest

from builders import KNOWLEDGE, event
from slurmdoctor.input.sources import Text
from slurmdoctor.model import Origin, SearchResult, SourceFormat
from slurmdoctor.ranks.excerpts import Excerpts
from slurmdoctor.ranks.labels import LabelReader, learn_formats
from slurmdoctor.readers.last_words import collect_last_words

WAIT = "[rank0]:[E1121 09:24:45.1 ProcessGroupNCCL.cpp:632] [Rank 0] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=7)"


def told(log: str) -> dict[int, str]:
    """Each rank's last words around the wait that this log shows."""
    source = Text.source(log)
    for _ in source.blocks():
        pass
    labels = LabelReader(KNOWLEDGE.formats)
    lines = Excerpts([source], SearchResult((), (), lambda line: []), labels, learn_formats([source], labels))
    wait = event("collective-timeout", at=log.index(WAIT), rank=0)
    return {rank: line.raw for rank, line in collect_last_words([wait], KNOWLEDGE, lines).items()}


@pytest.mark.parametrize("label", ["[rank{}]: ", "{}: ", "2026-11-21 09:00:00,123 [rank {}] ", "[1,{}]<stderr>:"])
def test_the_last_line_of_each_rank_counts(label: str) -> None:
    lines = [label.format(rank) + f"shard {n} read" for n in range(40) for rank in range(3)]
    lines.append(label.format(1) + "waiting for the archive")
    found = told("\n".join([*lines, WAIT, label.format(2) + "shard 40 read"]) + "\n")
    assert found[1] == label.format(1) + "waiting for the archive"
    assert found[2] == label.format(2) + "shard 40 read"


def test_what_a_rank_prints_of_its_end_tells_nothing() -> None:
    found = told(f"[rank1]: shard 3 read\n\n{WAIT}\n{WAIT.replace('ank0', 'ank1').replace('ank 0', 'ank 1')}\n")
    assert found == {1: "[rank1]: shard 3 read"}


def test_ranks_whose_last_words_are_known_are_passed_over(monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[str] = []
    plain = LabelReader.strip_labels

    def strip_labels(reader: LabelReader, line: str, source: SourceFormat | None = None) -> tuple[Origin, str]:
        read.append(line)
        return plain(reader, line, source)

    monkeypatch.setattr(LabelReader, "strip_labels", strip_labels)
    found = told("".join(f"[rank{n % 8}]: shard {n} read\n" for n in range(8000)) + WAIT + "\n")
    assert found.keys() == set(range(8))
    assert len(read) < 30
