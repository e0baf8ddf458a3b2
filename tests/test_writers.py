"""Lines of several writers that come mixed: each traceback is put together from its own writer's lines, under any label."""

from __future__ import annotations

from itertools import zip_longest
from pathlib import Path

import pytest

import slurmdoctor

SITE = r"""
formats:
  - id: site-label
    source: the launcher of a site
    pattern: '#w(?P<rank>\d+)# '
    samples: [{line: '#w3# hello', rank: 3, text: hello}]
  - id: site-pod
    source: the log collector of a site
    pattern: '\{(?P<writer>[a-z0-9-]+)\} '
    samples: [{line: '{pod-7f} hello', text: hello}]
"""
FAILURES = (
    ["Traceback (most recent call last):", '  File "/code/train.py", line 9, in <module>', "    main()",
     '  File "/code/train.py", line 7, in main', "    load(path)", "FileNotFoundError: [Errno 2] No such file: 'corpus.bin'"],
    ["Traceback (most recent call last):", '  File "/code/other.py", line 5, in <module>', "    start()",
     '  File "/code/other.py", line 3, in start', "    table['seven']", "KeyError: 'seven'"],
)  # fmt: skip
LABELS = {
    "learner": ("[learner0]:", "[learner1]:"),
    "actor": ("[actor4]:", "[actor12]:"),
    "named worker": ("[rollout_worker0]:", "[rollout_worker1]:"),
    "container": ("trainer-7f || ", "trainer-9c || "),
    "agents of one role": ("nemo.train/0 [default0]:", "nemo.train/1 [default0]:"),
    "pdsh": ("node-1: [rank0]: ", "node-1: [rank1]: "),
    "containers of two ranks": ("pod-a || [rank0]: ", "pod-a || [rank1]: "),
    "a site's label": ("#w0# ", "#w1# "),
    "a site's collector": ("{pod-7f} ", "{pod-9c} "),
    "horovodrun": ("[0]<stderr>:", "[1]<stderr>:"),
    "ray": ("(Trainer pid=71, ip=10.0.0.1) ", "(Trainer pid=72, ip=10.0.0.1) "),
}


def mixed(first: str, second: str) -> str:
    """A job of two writers that print a few steps, then their tracebacks, in turns."""
    steps = [f"{label}step {n}" for n in range(1, 7) for label in (first, second)]
    parts = ([first + line for line in FAILURES[0]], [second + line for line in FAILURES[1]])
    return "\n".join([*steps, *(line for pair in zip_longest(*parts) for line in pair if line)]) + "\n"


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("rules")
    (folder / "labels.yaml").write_text(SITE)
    return folder


@pytest.mark.parametrize("labels", LABELS.values(), ids=LABELS)
@pytest.mark.parametrize("turned", [False, True])
def test_mixed_tracebacks_are_taken_apart(labels: tuple[str, str], turned: bool, site: Path) -> None:
    first, second = reversed(labels) if turned else labels
    found = slurmdoctor.diagnose(mixed(first, second), rules=[str(site)]).to_dict()
    shown = "\n".join(found["first_failure"]["traceback"])
    own, other = ("train.py", "other.py") if "FileNotFound" in shown else ("other.py", "train.py")
    assert own in shown
    assert other not in shown
