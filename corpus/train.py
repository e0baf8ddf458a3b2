"""Make the classifier's weights: `make train`, or `python -m corpus.train [CASES]... [--folds N]` (needs the extra `train`).

It learns from the examples of our rules, from the labelled logs of tests/fixtures, and from the hashed lines of logs that are not
ours to copy (`lines.bin`): those of each folder CASES, which `--keep` writes there. `--folds N` prints how well it does on logs whose source
(repository, thread, program) was left out of the training, in N parts.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import math
import random
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any
from zlib import compress, decompress

import numpy as np
import yaml
from msgspec import msgpack
from scipy.optimize import minimize
from scipy.sparse import csr_matrix
from sklearn.linear_model import LogisticRegression

from slurmdoctor.classifier import COLUMNS, SCALE, Classifier, Weights, columns, masked, pieces_of, place_of, words_of
from slurmdoctor.input import opened
from slurmdoctor.knowledge import builtin, load
from slurmdoctor.model import Frozen, SourceFormat
from slurmdoctor.ranks import Excerpts, labels_of, learn_formats
from slurmdoctor.readers.last_words import ends_of_files
from slurmdoctor.readers.targets import find_lines

ROOT = Path(__file__).parents[1]
HASHED = Path(__file__).with_name("lines.bin")
OUT = ROOT / "src/slurmdoctor/classifier"
SIDE = {"truth.yaml", "job.sbatch", "scontrol.txt", "sacct.txt", "README.md", "notes.md", "script.sh"}
LINE_WEIGHTS, CAUSE_WEIGHTS = 16_000, 60_000
MOST_LINES = 24
"""Lines of a log besides the decisive ones that are kept: the last ones, and some of the others."""
PROBABILITIES = (0.0, 0.3, 0.5, 0.7, 0.9)
"""Where the rows of the reliability table begin."""
CONDITIONAL = ("nemo-home",)
"""Causes that no line shows by itself: what the log shows besides decides."""


class Example(Frozen, array_like=True):
    """A line: the columns of its words and its place, and whether an expert would point to it; of such a line those of its pieces."""

    words: tuple[int, ...]
    hit: bool = False
    pieces: tuple[int, ...] = ()


class Log(Frozen, array_like=True):
    """A labelled log; `cause` is None where it did not fail, or where no line shows its cause by itself."""

    source: str
    cause: str | None
    lines: list[Example]


def main() -> None:
    """Train, measure where that is asked, and write the weights and their manifest."""
    asked = argparse.ArgumentParser(description=__doc__)
    asked.add_argument("cases", nargs="*", type=Path)
    asked.add_argument("--keep", action="store_true")
    asked.add_argument("--folds", type=int, default=0)
    given = asked.parse_args()
    if given.keep:
        kept = [log for folder in given.cases for log in labelled(folder)]
        HASHED.write_bytes(compress(msgpack.encode(kept), 9))
    elsewhere = msgpack.decode(decompress(HASHED.read_bytes()), type=list[Log])
    logs = [*labelled(ROOT / "tests/fixtures"), *elsewhere]
    examples = list(rule_examples())
    figures = [measure(logs, examples, part, given.folds) for part in range(given.folds)]
    print(*figures, sep="\n")
    packed = compress(msgpack.encode(train(logs, examples)), 9)
    (OUT / "weights.bin").write_bytes(packed)
    trained = {"examples": len(examples), "logs": len(logs), "healthy": sum(log.cause is None for log in logs)}
    manifest = {**trained, "bytes": len(packed), "sha256": hashlib.sha256(packed).hexdigest(), "left-out": figures}
    (OUT / "manifest.json").write_text(json.dumps(manifest, indent=2) + "\n")


def rule_examples() -> Iterator[tuple[str, str]]:
    """(line without labels, cause) of each example that a rule matches."""
    knowledge = load((builtin(),))
    labels = labels_of(knowledge)
    for rule in knowledge.rules:
        for text in () if rule.cause in CONDITIONAL else rule.match:
            line = [part for part in text.split("\n") if part.strip()][-1]
            yield labels.strip_labels(line, SourceFormat())[1], rule.cause


def labelled(folder: Path) -> Iterator[Log]:
    """Each labelled log below a folder."""
    dice = random.Random(7)
    for truth in sorted(folder.rglob("truth.yaml")):
        known: dict[str, Any] = yaml.safe_load(truth.read_text())
        files = [str(file) for file in sorted(truth.parent.rglob("*")) if file.is_file() and file.name not in SIDE]
        proof = [" ".join(one.split()) for one in known.get("evidence") or () if one]
        lines = [
            (any(one in " ".join(raw.split()) for one in proof), text, place) for raw, text, place in asked_about(files)
        ]
        if known.get("failed") is None or not lines:
            continue
        others = [line for line in lines if not line[0]]
        some = [
            *others[: MOST_LINES // 2],
            *dice.sample(others[MOST_LINES // 2 :], min(MOST_LINES // 2, max(0, len(others) - MOST_LINES // 2))),
        ]
        made = [_example(*line) for line in (*(line for line in lines if line[0]), *some)]
        cause = known.get("cause") if known["failed"] else None
        source = str(known.get("source", truth.parent.name)).split("#")[0].split(",")[0]
        yield Log(hashlib.sha256(source.encode()).hexdigest()[:12], None if cause in CONDITIONAL else cause, made)


def asked_about(files: Sequence[str]) -> Iterator[tuple[str, str, tuple[str, ...]]]:
    """(line, line without labels, features of its place) of each line that a diagnosis would ask the classifier about."""
    knowledge = load((builtin(),), examples=False)
    labels = labels_of(knowledge)
    sources = opened(files).sources
    formats = learn_formats(sources, labels, None)
    lines = Excerpts(sources, find_lines(sources, knowledge, labels, formats, 1, None), labels, formats)
    for last in ends_of_files(lines):
        for below, line in enumerate(last):
            yield line.raw, line.text, place_of(line.text, below)


def _example(hit: bool, text: str, place: Sequence[str]) -> Example:
    line = masked(text)
    return Example(tuple(columns([*words_of(line), *place])), hit, tuple(columns(pieces_of(line))) if hit else ())


# ── training ─────────────────────────────────────────────────────────────────────────────────


def train(logs: Sequence[Log], examples: Sequence[tuple[str, str]]) -> Weights:
    """Weights from labelled logs and (line without labels, cause)."""
    line, line_unit = _line_weights(logs, [text for text, _ in examples])
    rows = [columns(pieces_of(masked(text))) for text, _ in examples]
    causes = [cause for _, cause in examples]
    for log in logs:
        hits = [list(one.pieces) for one in log.lines if one.hit and one.pieces and log.cause]
        rows += hits
        causes += [log.cause or ""] * len(hits)
    data = [np.full(len(row), SCALE / math.sqrt(max(1, len(row)))) for row in rows]
    table = csr_matrix((np.concatenate(data), np.concatenate(rows), _starts(rows)), shape=(len(rows), COLUMNS))
    used = np.unique(table.indices)
    model = LogisticRegression(C=3, max_iter=150, tol=1e-3).fit(table[:, used], causes)
    small, unit = _small(model.coef_.T, CAUSE_WEIGHTS)
    here = np.flatnonzero(small.any(axis=1))
    row, number = np.nonzero(small[here])
    return Weights(
        causes=tuple(map(str, model.classes_)),
        bias=tuple(round(float(one), 4) for one in model.intercept_),
        unit=round(float(unit), 8),
        line_unit=round(float(line_unit), 8),
        line_columns=np.flatnonzero(line).astype("<u4").tobytes(),
        line_weights=line[np.flatnonzero(line)].astype("i1").tobytes(),
        cause_columns=used[here].astype("<u4").tobytes(),
        cause_starts=np.searchsorted(row, np.arange(len(here) + 1)).astype("<u4").tobytes(),
        cause_numbers=number.astype("u1").tobytes(),
        cause_weights=small[here][row, number].astype("i1").tobytes(),
        examples=tuple(_of_cause(cause, examples) for cause in model.classes_),
    )


def _of_cause(cause: str, examples: Sequence[tuple[str, str]]) -> tuple[str, ...]:
    """The cause's examples that are short enough to be shown, of those that differ in numbers the first."""
    texts = (text.strip() for text, of in examples if of == cause)
    return tuple({masked(text): text for text in texts if 20 <= len(text) <= 140}.values())


def _line_weights(logs: Sequence[Log], examples: Sequence[str]) -> tuple[Any, float]:
    """Weights of the columns for which the decisive lines of a log win against its others.

    A rule's example takes the place of another log's decisive line, among lines of any logs.
    """
    dice = random.Random(5)
    groups = [log.lines for log in logs if any(one.hit for one in log.lines) and len(log.lines) > 1]
    weight = np.array([1.0] * len(groups) + [0.3] * len(examples))
    plain = [one for log in logs for one in log.lines if not one.hit]
    groups += [[*dice.sample(plain, 8), _example(True, text, place_of(text, dice.randrange(8)))] for text in examples]
    every = [one for group in groups for one in group]
    rows = [one.words for one in every]
    table = csr_matrix((np.ones(sum(map(len, rows))), np.concatenate(rows), _starts(rows)), shape=(len(rows), COLUMNS))
    across, hit = table.T.tocsr(), np.array([one.hit for one in every])
    sizes = np.array([len(group) for group in groups])
    start, each = np.concatenate([[0], np.cumsum(sizes)[:-1]]), np.repeat(weight, sizes)

    def share(score: Any) -> tuple[Any, Any]:
        top = np.maximum.reduceat(score, start)
        grown = np.exp(score - np.repeat(top, sizes))
        total = np.add.reduceat(grown, start)
        return top + np.log(total), grown / np.repeat(total, sizes)

    def loss(weights: Any) -> tuple[float, Any]:
        score = table @ weights
        (whole, part), (right, of_right) = share(score), share(np.where(hit, score, -1e9))
        value = (weight * (whole - right)).sum() / len(groups) + 5e-4 * weights @ weights
        return value, across @ ((part - of_right) * each) / len(groups) + 1e-3 * weights

    return _small(
        minimize(loss, np.zeros(COLUMNS), jac=True, method="L-BFGS-B", options={"maxiter": 80}).x, LINE_WEIGHTS
    )


def _small(weights: Any, most: int) -> tuple[Any, float]:
    """The largest weights as whole numbers up to 127, and what 1 of them is worth."""
    sizes = np.abs(weights)
    least = np.sort(sizes, axis=None)[-min(most, sizes.size)]
    kept = np.where(sizes >= max(least, 1e-9), weights, 0)
    top = np.quantile(np.abs(kept[kept != 0]), 0.9995)
    return np.clip(np.round(kept * 127 / top), -127, 127).astype(int), float(top / 127)


def _starts(rows: Sequence[Sequence[int]]) -> Any:
    return np.cumsum([0, *map(len, rows)])


def measure(logs: Sequence[Log], examples: Sequence[tuple[str, str]], part: int, parts: int) -> dict[str, int]:
    """How well what the others teach does on the sources of this part."""
    left_out = set(sorted({log.source for log in logs})[part::parts])
    made = Classifier(train([log for log in logs if log.source not in left_out], examples))
    asked = [log for log in logs if log.source in left_out and log.cause and any(one.hit for one in log.lines)]
    found = {"logs": len(asked), "line first": 0, "line in three": 0, "cause": 0}
    found |= {f"{word} from {low:.1f}": 0 for low in PROBABILITIES for word in ("said", "right")}
    for log in asked:
        best = sorted(log.lines, key=lambda one: -made.score(one.words))
        cause, probability = made.cause_of(next(one.pieces for one in best if one.hit))
        found["line first"] += best[0].hit
        found["line in three"] += any(one.hit for one in best[:3])
        found["cause"] += cause == log.cause
        low = max(one for one in PROBABILITIES if one <= probability)
        found[f"said from {low:.1f}"] += 1
        found[f"right from {low:.1f}"] += cause == log.cause
    return found


if __name__ == "__main__":
    main()
