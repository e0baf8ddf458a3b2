"""`--anonymize`: no name of a user, an account, a job, a node or a path is left in a row, and what the row tells besides is."""

import os
import random
import re
import stat
import string
from collections.abc import Callable
from pathlib import Path

import pytest
from msgspec import convert, json
from msgspec.structs import replace

import hostile
from planted_secrets import FORMS
from slurmdoctor.model import UserError
from slurmdoctor.survey import pseudonyms
from slurmdoctor.survey.pseudonyms import LISTS, NAMES, TEXTS, Anonymizer
from slurmdoctor.survey.rows import Row
from tables import table

KEY = bytes(range(32))
KEPT = (
    "num_nodes gpus gpus_known_by submitted started ended elapsed_s restarts verdict cause family confidence rule rank failed_at ran_on_s "
    "exit_code exit_signal exit_class world_size launcher evidence_line retry gpu_hours gpu_hours_lost lost_counted bytes read "
    "slurmdoctor rules_version schema_version"
)
"""Columns that name nobody."""
OTHERS = ("key", "fingerprint", "job_id", "state", "evidence_file")
"""Columns that are changed in their own ways."""
TABLES = table("pseudonyms")
ROW = convert(TABLES["row"], Row)
NAMED = ("kimberley", "lindqvist", "frost", "wombat", "lustre", "my run", "90210", "moor")


def anonymous(row: Row, key: bytes = KEY) -> Row:
    return Anonymizer(key).row(row)


def shown(row: Row) -> str:
    """All that the row says, as a reader searches it."""
    return json.encode(row).decode().casefold()


def word(rng: random.Random) -> str:
    """A name that no text of ours holds."""
    return "q" + "".join(rng.choices(string.ascii_lowercase, k=rng.randrange(4, 12)))


def test_no_name_is_left_and_what_names_nobody_stays() -> None:
    found = anonymous(ROW)
    assert [name for name in NAMED if name in shown(found)] == []
    for column in KEPT.split():
        assert getattr(found, column) == getattr(ROW, column)
    assert (found.job_id, found.state) == ("4711_3", "CANCELLED")
    assert str(found.evidence).startswith("FileNotFoundError: [Errno 2] No such file or directory: 'path-")
    # a new column names nobody, is a name, or is a text
    groups = (KEPT.split(), NAMES, LISTS, TEXTS, OTHERS)
    assert sorted(column for group in groups for column in group) == sorted(Row.__struct_fields__)
    bare = Row(key="a", fingerprint="b")
    assert replace(anonymous(bare), key="a", fingerprint="b") == bare


def test_a_name_has_the_same_pseudonym_in_every_column_text_and_run() -> None:
    found = anonymous(ROW)
    assert found == anonymous(ROW)
    assert found.node == found.nodes[1] == found.exclude_nodes[0]
    assert found.nodes[0] in str(found.fix)  # called by its short name there
    assert str(found.user) in str(found.last_line)
    assert found.evidence_file == found.logs[0]
    assert found.notes[0].startswith(found.logs[1])


def test_names_are_distinct_and_another_key_gives_others() -> None:
    names = Anonymizer(KEY)
    assert len({names.name("node", f"node{n:04}") for n in range(5000)}) == 5000
    rows = anonymous(ROW), anonymous(ROW, bytes(32))
    assert len({name for row in rows for name in (row.user, row.node, row.key, row.fingerprint)}) == 8
    assert names.name("user", "train") != names.name("job", "train").replace("job", "user")


FORMS_OF_A_NAME: dict[str, Callable[[str, str], str]] = {
    **FORMS,
    "within a word": lambda _, name: f"exp_{name}_3 and my{name}2",
    "as a folder": lambda _, name: f"cannot open /home/{name}/run/{name}.bin, see {name}/logs and ~{name}/x",
    "percent": lambda _, name: f"GET https://example.org/%2F{name}?u={name}&v=1",
    "escaped": lambda _, name: f"b'\\n{name}' u'\\u002f{name}' '\\x2f{name}'",
    "capitals": lambda _, name: f"{name.upper()} {name.title()}",
    "mail": lambda _, name: f"ask {name}@example.org or {name}@frost017",
    "prose": lambda _, name: f"Permission denied for user {name}, group '{name}' ({name})",
}  # fmt: skip


@pytest.mark.parametrize("form", FORMS_OF_A_NAME)
def test_no_name_of_a_column_is_left_in_any_text_in_any_form(form: str) -> None:
    """Planted in every column that holds names, and in every text."""
    rng = random.Random(form)
    name = {column: word(rng) for column in (*NAMES, *LISTS)}
    name |= {"node": f"{name['node']}07", "nodes": f"{name['node']}08", "logs": f"/{word(rng)}/{name['logs']}/{word(rng)}.out"}  # fmt: skip
    columns = {column: (planted,) if column in LISTS else planted for column, planted in name.items()}
    own = {"key": f"{name['cluster']}:{name['logs']}", "evidence_file": name["logs"].rpartition("/")[2]}
    row = replace(ROW, **columns, **own)
    for planted in name.values():
        text = FORMS_OF_A_NAME[form]("JOB_NAME", planted)
        said = shown(anonymous(replace(row, **dict.fromkeys(TEXTS[:-1], text), notes=(text, text))))
        assert [part for part in planted.split("/") if part and part in said] == [], text


@pytest.mark.parametrize("name", ["li", "wu"])
def test_a_short_name_is_one_only_as_a_word(name: str) -> None:
    evidence = str(anonymous(replace(ROW, user=name, evidence=f"{name}: none, {name}_3 (client, wurst)")).evidence)
    assert re.findall(rf"(?<![a-z]){name}(?![a-z])", evidence) == []
    assert "client, wurst" in evidence


@pytest.mark.parametrize("text", TABLES["others"])
def test_other_hosts_people_and_places_in_texts_go_too(text: str) -> None:
    said = shown(anonymous(replace(ROW, evidence=text)))
    assert [name for name in ("other", "10.20", "fe80", "b07", "90210") if name in said] == []


def test_what_names_nobody_is_left_in_texts() -> None:
    text = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 5 has 79 GiB"
    for kept in (text, "step 3/8 at 1.2 it/s, I/O error 5, 16:30", "KeyError: 'input_ids'", "NCCL error 2 in 12.4 s"):
        assert anonymous(replace(ROW, evidence=kept)).evidence == kept


@pytest.mark.parametrize("kind", TABLES["hostile"])
def test_hostile_text_is_no_trouble(kind: str) -> None:
    text = hostile.KINDS[kind]()[:2000].decode("utf-8", "replace")
    names = {"user": f"{text[:300]}\ud800", "job_name": text[300:700], "nodes": (text[:40],)}
    found = anonymous(replace(ROW, **names, evidence=text, logs=(text,)))
    assert re.fullmatch(r"user-[0-9a-f]{12}", str(found.user))


def test_a_job_of_thousands_of_files_and_nodes_is_no_trouble() -> None:
    files = tuple(f"/scratch/demo/rank_{n}.log" for n in range(4096))
    nodes = tuple(f"frost{n:04}" for n in range(1024))
    found = anonymous(replace(ROW, logs=files, nodes=nodes, notes=("rank_4095.log is cut", "frost1023 is gone")))
    assert found.notes == (f"{found.logs[4095]} is cut", f"{found.nodes[1023]} is gone")


@pytest.fixture
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    return tmp_path / "config" / "slurmdoctor" / "pseudonyms.key"


def test_the_key_is_made_once_for_its_user_s_eyes_alone(config: Path) -> None:
    first = pseudonyms.own_key()
    assert (len(first), pseudonyms.own_key()) == (32, first)
    assert (stat.S_IMODE(config.stat().st_mode), list(config.parent.iterdir())) == (0o600, [config])
    config.chmod(0o644)
    with pytest.raises(UserError, match="others may read") as told:
        pseudonyms.own_key()
    assert f"chmod 600 {config}" in str(told.value.mend)


@pytest.mark.parametrize(
    ("make", "said"),
    [
        *((lambda path, text=text: path.write_bytes(text) and path.chmod(0o600), "no key of slurmdoctor's") for text in (b"\n", b"xyz", b"00" * 31, b"00" * 33, b"\xff")),
        (lambda path: path.mkdir(), "not a file of yours|cannot be used"),
        (lambda path: path.symlink_to("/dev/zero"), "cannot be used"),
        pytest.param(lambda path: path.parent.chmod(0o500), "cannot write", marks=pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")),
    ],
)  # fmt: skip
def test_a_key_that_is_none_or_cannot_be_made_is_told(config: Path, make: Callable[[Path], None], said: str) -> None:
    config.parent.mkdir(parents=True)
    make(config)
    with pytest.raises(UserError, match=said):
        pseudonyms.own_key()
