"""No secret leaves; nothing but a secret is masked; no control character survives."""

import random
import sys
from pathlib import Path
from time import process_time

import pytest
from hypothesis import given, strategies as st
from msgspec.structs import replace

from planted_secrets import FORMS, KINDS, TABLES, lines, readable, shown_parts
from report_examples import CUDA_OOM, SILENT
from slurmdoctor import diagnose
from slurmdoctor.knowledge import builtin, load
from slurmdoctor.knowledge.workshop.proof import planted
from slurmdoctor.model import Diagnosis, FirstFailure, SecretKind
from slurmdoctor.report import render
from slurmdoctor.report.redaction import Mode, Redactor, disarm, redact

DESCRIBED = load((f"{builtin()}/secrets.yaml",)).secrets
WORD = "mwsxrvcvmfc"
HF = "hf" + "_" + "aBcDeFgHiJ" * 3 + "kLmN"

# ── what is masked ───────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("form", FORMS)
def test_a_secret_is_masked_in_every_form(form: str) -> None:
    """Each form of some ten kinds, and each kind in some five forms."""
    first = list(FORMS).index(form)
    for kind, (name, make) in list(KINDS.items())[first % 7 :: 7]:
        secret = make(random.Random(kind + form))
        line = FORMS[form](name, secret)
        shown = redact(line)
        assert "[redacted " in shown, line
        assert not [part for part in shown_parts(form, secret) if part in readable(shown)], (line, shown)
        assert redact(shown) == shown


@pytest.mark.parametrize("kind", DESCRIBED, ids=lambda kind: kind.id)
def test_a_kind_takes_its_examples_alone_and_with_all_others(kind: SecretKind) -> None:
    rng = random.Random(kind.id)
    for example in kind.match:
        line, secrets = planted(example, rng)
        assert secrets
        for shown in (Redactor("default", (kind,)).values(line), redact(line), redact(line, "strict")):
            assert "[redacted " in shown
            assert not [secret for secret in secrets if secret in shown], (line, shown)


@pytest.mark.parametrize("password", ["Geheim4711x", "kX9#mQ2p", "Tr0ub4dor&3x"])
def test_passwords_as_programs_and_people_of_many_countries_write_them(password: str) -> None:
    missed = []
    for line in lines("passwords"):
        if "&" in password and ("<password>" in line or "<<<" in line or "|" in line):
            continue
        for mode in ("default", "strict"):
            shown = redact(f"RuntimeError: {line.replace('§', password)} failed", mode)
            missed += [shown] if password[-5:] in shown else []
    assert missed == []


def test_passwords_of_small_letters_in_arguments_and_addresses_and_keys_of_programs() -> None:
    assert [line for line in lines("words") if WORD in redact(line.replace("§", WORD))] == []
    for line in lines("keys"):
        made, secrets = planted(line, random.Random(line))
        shown = redact(f"RuntimeError: {made} failed")
        assert not [secret for secret in secrets if secret in shown and secret != "PRIVATE KEY"], shown


@pytest.mark.parametrize("before", ["job-", "out_", "/scratch/demo/", "(", "tried ", "\\n", "%3D", "\u00ad"])
def test_a_token_in_a_file_name_and_beside_signs(before: str) -> None:
    for behind in (".out", "-rank0.log", "_0", ")", "\\n"):
        shown = redact(before + HF + behind)
        assert shown.replace("\u00ad", "") == f"{before}[redacted hf token]{behind}".replace("\u00ad", "")


def test_a_token_that_a_line_of_eighty_columns_breaks_or_that_is_coloured_inside() -> None:
    line = f"{'gated repo, tried with':>60} {HF} and failed"
    assert redact(f"{line[:80]}\n{line[80:]}") == f"{line[:61]}[redacted hf token] and failed"
    assert redact(line[:80]) == f"{line[:61]}[redacted hf token]"
    assert HF[20:] not in redact(f"│ {line[:78]} │\n│ {line[78:]}")
    assert redact(HF[:9] + "\x1b[1m" + HF[9:]) == "[redacted hf token]"


def test_a_key_over_several_lines_of_a_traceback() -> None:
    begin, end = "-----BEGIN PRIVATE KEY-----", "-----END PRIVATE KEY-----"
    text = ("before", begin, "A" * 64, "bB/+" * 16, end, "after")
    safe = Redactor().apply(replace(CUDA_OOM, first_failure=FirstFailure(traceback=text)))
    assert safe.first_failure.traceback == ("before", "[redacted private key]", "after")


def test_the_kinds_of_the_public_scanners_are_there_and_what_only_looks_like_a_secret_stays() -> None:
    assert len(DESCRIBED) >= 120
    assert [kind.id for kind in DESCRIBED if not kind.match or not kind.no_match or not kind.source] == []
    look_alikes = [line for kind in DESCRIBED for line in kind.no_match]
    assert len(set(look_alikes)) >= 200
    assert [line for line in look_alikes + lines("harmless") if redact(line) != line] == []


def test_no_false_mask_on_the_fixtures() -> None:
    """Fixtures hold no secrets but planted ones, which are named `secret...` or `redact...`."""
    for path in (Path(__file__).parent / "fixtures").rglob("*"):
        if path.suffix in {".log", ".out", ".err", ".txt"} and not path.parts[-2].startswith(("secret", "redact")):
            texts = dict.fromkeys(path.read_bytes()[:200_000].decode("utf-8", "replace").splitlines())
            assert [line for line in texts if redact(line) != disarm(line)] == [], path


def test_off_masks_nothing_and_nothing_is_rebuilt_for_ordinary_text() -> None:
    assert redact("password=hunter2hunter2", "off") == "password=hunter2hunter2"
    assert Redactor("off").apply(CUDA_OOM) is CUDA_OOM
    assert Redactor().apply(SILENT) is SILENT


OWN = "Tell storage@hpc.example.org that {volume} is gone; the password is shown there."


def test_an_address_that_a_rule_gives_is_shown_and_any_other_masked() -> None:
    filled = "Tell storage@hpc.example.org that vol-of-ann@hpc.example.org is gone"
    assert Redactor(own=OWN).values(filled) == "Tell storage@hpc.example.org that [redacted e-mail] is gone"
    assert redact(filled) == "Tell [redacted e-mail] that [redacted e-mail] is gone"
    assert "shown" not in Redactor(own=OWN).values("DB_PASSWORD=shown"), "a word of a rule is no less a secret"


def test_a_site_has_kinds_of_its_own_and_its_fix_keeps_its_contact() -> None:
    log = f"loader of ann@lab.example.org with prt_{'0a1b2c3d' * 4}: tape volume vol8 is gone\n"
    assert "prt_0a1b2c3d" in render(diagnose(log), "json")
    found = diagnose(log, rules=[Path(__file__).parent / "site_rules"])
    assert [fix.do for fix in found.fixes] == ["Tell storage@hpc.example.org that vol8 is gone."]
    shown = render(found, "json")
    assert "loader of [redacted e-mail] with [redacted portal token]: tape" in shown


@pytest.mark.parametrize("mode", ["off", "default", "strict"])
def test_terminal_control_is_always_disarmed(mode: Mode) -> None:
    bad = "\x1b[31mred\x1b[0m \x1b]0;title\x07x \x9b2J a\x00\x00b \u202eabc\u2066 \x07 \ud800 tab\there \x1b]8;;http://x\x1b\\l"
    assert redact(bad, mode) == "red x  a\ufffdb \ufffdabc\ufffd \ufffd \ufffd tab\there l"


@given(st.text(st.one_of(st.sampled_from("\x1b[]m;\x07\x9b\r\n\t\u202e@:/="), st.characters())))
def test_disarm_leaves_nothing_to_steer_with(said: str) -> None:
    shown = disarm(said)
    assert not any(
        (ord(c) < 32 and c not in "\t\n") or 0x7F <= ord(c) < 0xA0 or 0x202A <= ord(c) <= 0x202E for c in shown
    )
    assert disarm(shown) == shown
    shown.encode()


STRICT = (
    "/gpfs/site/home/jdoe/run/train.py USER=jdoe on gpu-0231.example.internal (10.20.30.40) and fe80::1ff:fe23:4567:890a; "
    "slurmstepd-tucana: error: *** JOB 12 ON tucana CANCELLED; tucana:1:2 [0] NCCL; jdoe at 10.20.30.40; 127.0.0.1 [::]:29500"
)  # fmt: skip


def test_strict_gives_false_names_throughout() -> None:
    shown = redact(STRICT, "strict")
    assert [name for name in ("jdoe", "gpfs", "gpu-0231", "tucana", "10.20.30.40", "fe80") if name in shown] == []
    assert shown.startswith("/home/user-1/run/train.py USER=user-1 on host-")
    assert shown.count("ip-1") == 2
    assert "127.0.0.1 [::]:29500" in shown
    assert redact(STRICT) == STRICT


def test_strict_is_consistent_over_a_diagnosis() -> None:
    first = FirstFailure(rank=1, node="tucana", file="/home/jdoe/job.log", line=3, text="jdoe on tucana")
    safe = Redactor("strict").apply(replace(CUDA_OOM, first_failure=first, reasons=("tucana (10.1.2.3) said so",)))
    host = str(safe.first_failure.node)
    assert host.startswith("host-")
    assert (safe.first_failure.file, safe.first_failure.text) == ("/home/user-1/job.log", f"user-1 on {host}")
    assert safe.reasons == (f"{host} (ip-1) said so",)
    assert safe.cause == CUDA_OOM.cause
    assert Redactor("strict").apply(Diagnosis("unknown")) == Diagnosis("unknown")


@pytest.mark.parametrize("name", ["kmueller", "bsc99123", "km42"])
def test_strict_masks_a_person_by_where_the_name_stands_and_then_everywhere(name: str) -> None:
    for tree in TABLES["people"].split():
        path = tree.replace("USER", name).replace("GROUP", "ab123").replace("WORK", "work")
        shown = redact(f"OSError: [Errno 122] Disk quota exceeded: '{path}' ({name} on x, {name}-backup)", "strict")
        assert (name in shown, "ab123" in shown, shown.count("user-") >= 3) == (False, False, True), shown


def test_strict_masks_names_beside_paths_and_keeps_what_is_nobody_s() -> None:
    for line, names in TABLES["names"].items():
        shown = redact(line, "strict")
        assert not [name for name in names.split() if name in shown], shown
        assert redact(line) == line
    assert [line for line in lines("nobody") if redact(line, "strict") != line] == []


PIECES = ["token=", "--password ", "://a:", "key: '", "hf_", "['curl', '-u', ", "\\\"secret\\\": ", "a@", "eyJ", "wandb key ", "a", "/home",
          "[redacted x]", "pass", "-----BEGIN PRIVATE KEY-----", "%3D", "\u00ad", "api_key" + "." * 40, "docker login ", "x" * 60 + "\n", "AKIA",
          "basic ", "1.", "\x1b[", "a:", "--a-"]  # fmt: skip


def calls(text: str) -> int:
    """How many functions are called to redact a text, in Python and in C."""
    events: list[str] = []
    sys.setprofile(lambda frame, event, arg: events.append(event))
    try:
        redact(text)
    finally:
        sys.setprofile(None)
    return events.count("call") + events.count("c_call")


@pytest.mark.slow
@pytest.mark.parametrize("piece", PIECES)
def test_twice_the_text_is_twice_the_work_and_is_read_to_its_end(piece: str) -> None:
    redact(piece * 20)
    once, twice = (calls(piece * times) for times in (250, 500))
    assert twice <= 2.2 * once + 100
    for mode in ("default", "strict"):
        assert "hunter2" not in redact(piece * 1000 + "\npassword=hunter2hunter2", mode)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("piece", "shown"),
    [
        ("step=1 loss=2.5 key=value tokens=4096 ", "step=1 loss=2.5 key=value tokens=4096 "),
        ("token=%68f_abcdefghijklmnop1234567890ABCD ", "token=[redacted hf token] "),
    ],
)
def test_a_line_four_times_as_long_takes_four_times_as_long(piece: str, shown: str) -> None:
    spent = []
    for times in (1000, 4000):
        began = process_time()
        assert redact(f"{piece * times} password={WORD}") == f"{shown * times} password=[redacted secret]"
        spent.append(process_time() - began)
    assert spent[1] < 9 * spent[0] + 0.1
