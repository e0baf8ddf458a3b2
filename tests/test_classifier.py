"""The classifier's weights: what they are made of, and that they say the same everywhere."""

import hashlib
import json
from pathlib import Path

import slurmdoctor.classifier
from slurmdoctor.classifier import classifier, columns, masked, pieces_of, place_of
from slurmdoctor.knowledge import builtin, load

ROOM = Path(slurmdoctor.classifier.__file__).parent
QUOTA = "zq_store: write to /scratch/part-7 refused, disk quota exceeded"


def test_the_weights_are_those_of_the_manifest_and_small() -> None:
    made = json.loads((ROOM / "manifest.json").read_text())
    data = (ROOM / "weights.bin").read_bytes()
    assert (made["bytes"], made["sha256"]) == (len(data), hashlib.sha256(data).hexdigest())
    assert len(data) < 500_000


def test_a_line_reads_like_one_of_our_causes() -> None:
    cause, probability = classifier().cause_of(columns(pieces_of(masked(QUOTA))))
    assert cause == "disk-full"
    assert 0.5 < probability <= 1
    assert {classifier().cause_of([number])[0] for number in range(0, 260_000, 1000)} <= load(
        (builtin(),)
    ).causes.keys()


def test_a_line_of_trouble_reads_more_decisive_than_one_of_work() -> None:
    scores = [classifier().decisive(line, *place_of(line, 3)) for line in (QUOTA, "step 40 wrote 3 tables")]
    assert scores[0] > scores[1]


def test_numbers_and_addresses_make_no_difference() -> None:
    assert masked("rank 3 at 0x7f12: part 17 of deadbeefcafe01") == masked(
        "rank 11 at 0xa1: part 2 of 0123456789abcdef"
    )
