"""Reading rule files: what they may say, how folders override each other, and the cache."""

import os
import subprocess
import sys
import zlib
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given, strategies as st
from msgspec import msgpack

from rule_files import cause_file, put
from slurmdoctor.knowledge import RuleError, builtin, folders, load, paths
from slurmdoctor.knowledge.document import parse
from slurmdoctor.knowledge.loading import _loaded, kept as known_in
from slurmdoctor.knowledge.problems import Place
from slurmdoctor.knowledge.rule_reader import LoadedRules, read, read_file
from slurmdoctor.knowledge.schema import Mistakes
from slurmdoctor.matching import usercache
from slurmdoctor.model import Knowledge, UserError


@pytest.fixture
def ours(tmp_path: Path) -> Path:
    """A catalogue of our own making: one cause, in its family."""
    return put(tmp_path / "ours" / "storage" / "tape.yaml", cause_file("tape")).parents[1]


def plain(*folders: Path) -> Knowledge:
    return load(folders, cache=False)


def wrong(*folders: Path) -> list[str]:
    with pytest.raises(RuleError) as error:
        plain(*folders)
    return list(error.value.lines)


def test_a_fix_has_a_table_of_conditions_or_one_which_is_no_python(tmp_path: Path) -> None:
    for when, known in (
        ("{framework: [megatron, nemo], ep: true, tp: 8}", {"framework": ("megatron", "nemo"), "ep": True, "tp": 8}),
        ("ep % tp != 0 or not world", {"ep % tp != 0 or not world": True}),
    ):
        put(tmp_path / "tape.yaml", cause_file("tape", do=f"Restart it.\n    when: {when}"))
        assert plain(tmp_path).causes["tape"].fixes[0].when == known
    put(tmp_path / "tape.yaml", cause_file("tape", do="Restart it.\n    when: ep.bit_length() > 2"))
    assert any("no part of an expression" in problem for problem in wrong(tmp_path))


def test_a_list_of_alternatives_is_one_pattern(tmp_path: Path) -> None:
    pieces = "\n      - 'robot is gone'\n      - - 'tape library is gone'\n        - ' after (?P<seconds>\\d+) s'"
    put(tmp_path / "tape.yaml", cause_file("tape", regex=pieces))
    assert plain(tmp_path).rules[0].regex == r"robot is gone|tape library is gone after (?P<seconds>\d+) s"


def test_a_fragment_stands_for_its_pattern(ours: Path, tmp_path: Path) -> None:
    fragments = "fragments:\n  - {id: device, regex: [tape, disk], examples: {match: [tape]}}\n"
    more = "  - {id: library, regex: '{device} library', examples: {match: [tape library]}}\n"
    put(ours / "fragments.yaml", fragments + more)
    put(ours / "storage" / "tape.yaml", cause_file("tape").replace("'tape library is", "'{library} is"))
    raid = put(tmp_path / "site" / "raid.yaml", cause_file("site/raid").replace("'tape library is", "'{device}{1} is"))
    put(tmp_path / "site" / "own.yaml", fragments.replace("disk", "raid"))
    rules = {rule.cause: rule.regex for rule in plain(ours, tmp_path / "site").rules}
    assert rules["tape"].startswith("(?:(?:tape|disk) library) is gone")
    assert rules["site/raid"].startswith("(?:tape|raid){1} is gone")
    put(raid, raid.read_text() + fragments.replace("disk", "jukebox"))
    own = plain(ours, tmp_path / "site").causes["site/raid"].rules[0].regex
    assert own.startswith("(?:tape|jukebox){1} is gone")


@pytest.mark.parametrize(
    ("text", "what", "mend"),
    [
        (b"\xff\xfe", "not UTF-8", "UTF-8"),
        (b"", "empty", "rules new"),
        (b"# nothing\n", "empty", "rules new"),
        (b"- a\n- b\n", "must be a table", "cause:"),
        (b"cause: a\n---\ncause: b\n", "another document", "one document"),
        (b"cause: &x [*x]\n", "alias", "write it out"),
        (b"rules: &r [a]\nfixes: *r\n", "alias", "write it out"),
        (b"cause: !!python/object:os.system a\n", "tag", "remove it"),
        (b"cause: a\x07b\n", "control character", "escape"),
        (b"? [a, b]\n: c\n", "plain word", "quote"),
        (b"casue: a\n", "no key `casue`", "did you mean `cause`?"),
        (b"[" * 2000 + b"]" * 2000, "nest", "six levels"),
        (b"[" * 200_000, "nest", "six levels"),
        (b"- " * 200_000, "nest", "six levels"),
    ],
)
def test_what_is_no_rule_file_is_refused(tmp_path: Path, text: bytes, what: str, mend: str) -> None:
    (tmp_path / "a.yaml").write_bytes(text)
    told = wrong(tmp_path)
    assert any(what in line and mend in line for line in told), told


@given(
    st.text(alphabet=st.sampled_from("abc:-[]{}'\"#&*!|>?%@\n\t \\rulescause0"), max_size=80) | st.binary(max_size=60)
)
def test_no_text_breaks_the_reader(text: str | bytes) -> None:
    data = text.encode() if isinstance(text, str) else text
    problems = Mistakes()
    tree = parse(data, "a.yaml", problems)
    if tree is not None:
        read_file(tree, problems)
    assert all(isinstance(problem.place, Place) and problem.what and problem.mend for problem in problems)


def test_all_mistakes_of_all_files_are_one_error(tmp_path: Path, ours: Path) -> None:
    put(tmp_path / "site" / "one.yaml", "cause: site/one\n")
    put(tmp_path / "site" / "two.yaml", cause_file("site/two", role="rot"))
    told = wrong(ours, tmp_path / "site")
    assert any(":1:1: a cause lacks `title`; add title:" in line for line in told)
    assert any("two.yaml:3:7: `role`: Invalid enum value 'rot'; did you mean `root`?" in line for line in told)
    assert issubclass(RuleError, UserError)


def test_a_site_adds_a_cause_of_its_own_replaces_one_of_ours_or_silences_its_rules(tmp_path: Path, ours: Path) -> None:
    file = put(tmp_path / "site" / "deep" / "raid.yaml", cause_file("site/raid"))
    for place in (tmp_path / "site", file):  # a single file stands for a folder
        known = plain(ours, place)
        assert known.causes["site/raid"].family == "site"
        assert [rule.id for rule in known.rules] == ["site/raid/loader", "tape/loader"]
    cause = plain(ours, put(file.with_name("tape.yaml"), cause_file("tape", title="missed the tape"))).causes["tape"]
    assert (cause.title, cause.family) == ("missed the tape", "storage")
    assert plain(ours, put(tmp_path / "quiet.yaml", "silence: [tape/loader]\n")).rules == ()


def test_a_site_extends_one_of_our_causes(tmp_path: Path, ours: Path) -> None:
    examples = "examples: {match: [robot is stuck]}"
    rule = f"id: tape/robot, source: robot, literals: [robot is stuck], regex: is stuck, {examples}"
    text = f"cause: tape\nextends: true\nexplains: [peer-lost]\ntraits: [link]\nrules: [{{{rule}}}]\nfixes: [{{do: Kick it.}}]\n"
    put(tmp_path / "site" / "tape.yaml", text)
    cause = plain(ours, tmp_path / "site").causes["tape"]
    assert [(rule.id, rule.role) for rule in cause.rules] == [("tape/robot", "root"), ("tape/loader", "root")]
    assert [rule.of_site for rule in cause.rules] == [True, False]  # nobody has proven that its pattern is fast
    assert [(fix.do, fix.of_site) for fix in cause.fixes] == [("Kick it.", True), ("Restart it.", False)]
    assert (set(cause.explains), set(cause.traits)) == ({"sigterm", "peer-lost"}, {"link"})
    assert cause.title == "lost the tape library"


def test_traits_states_and_endings_lead_to_their_causes(tmp_path: Path, ours: Path) -> None:
    given = "after-fix\ntraits: [link, waited]\nslurm_states: [TIMEOUT]\nendings: [killed]"
    for file, cause in ((ours / "storage" / "tape.yaml", "tape"), (tmp_path / "site" / "raid.yaml", "site/raid")):
        put(file, cause_file(cause, retry=given))
    known = plain(ours)
    assert known.traits["link"] == known.traits["waited"] == {"tape"}
    assert known.traits["system"] == frozenset()
    assert (known.cause_of_state["TIMEOUT"], known.cause_of_ending["killed"]) == ("tape", "tape")
    both = plain(ours, tmp_path / "site")
    assert both.traits["link"] == {"tape", "site/raid"}
    assert (both.cause_of_state["TIMEOUT"], both.cause_of_ending["killed"]) == ("site/raid", "site/raid")


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (cause_file("raid"), "did you mean|write cause: site/raid"),
        ("cause: tap\nextends: true\n", "did you mean `tape`?"),
        ("cause: site/tape\nextends: true\n", "which is not there; "),
        ("cause: tape\nextends: true\ntitle: my own\n", "has no key `title`"),
        ("silence: [tape/laoder]\n", "there is no rule `tape/laoder` to silence; did you mean `tape/loader`?"),
    ],
)
def test_a_site_is_told_what_it_overrides_wrongly(tmp_path: Path, ours: Path, text: str, told: str) -> None:
    name = text.split()[1].rpartition("/")[2] if text.startswith("cause") else "quiet"
    put(tmp_path / "site" / f"{name}.yaml", text)
    lines = wrong(ours, tmp_path / "site")
    assert any(one in line for line in lines for one in told.split("|")), lines


def test_one_cause_twice_in_a_folder_and_a_rule_twice_are_mistakes(ours: Path) -> None:
    put(ours / "memory" / "tape.yaml", text := cause_file("tape"))
    (told,) = wrong(ours)
    assert "the cause `tape` is described a second time (first in " in told
    rule = text[text.index("  - id:") : text.index("fixes:")]
    put(ours / "memory" / "tape.yaml", text.replace("fixes:", rule + "fixes:"))
    assert any("the rule `tape/loader` is described a second time" in line for line in wrong(ours / "memory"))


def test_rules_lie_in_the_wheel_or_in_the_clone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = tmp_path / "lib" / "slurmdoctor"
    monkeypatch.setattr(paths, "__file__", str(package / "knowledge" / "paths.py"))
    with pytest.raises(UserError, match="install slurmdoctor again"):
        builtin()
    put(tmp_path / "rules" / "formats.yaml", "")
    assert builtin() == str(tmp_path / "rules")
    put(package / "rules" / "formats.yaml", "")
    assert builtin() == str(package / "rules")


def test_folders_come_in_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    names = ["etc", "config/slurmdoctor/rules.d", "one", "two", "named"]
    etc, user, one, two, named = (put(tmp_path / name / "a.yaml", "silence: []\n").parent for name in names)
    monkeypatch.setattr(paths, "SITE", str(etc))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("SLURMDOCTOR_RULES", f"{one}{os.pathsep}{two}")
    assert folders([named, named]) == (builtin(), *map(str, (etc, user, one, two, named)))


def test_a_folder_that_is_not_there_is_told_where_it_was_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(paths, "SITE", str(tmp_path / "etc"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.delenv("SLURMDOCTOR_RULES", raising=False)
    assert folders() == (builtin(),)
    with pytest.raises(UserError, match=r"--rules names .*nowhere, which is not there"):
        folders([tmp_path / "nowhere"])
    monkeypatch.setenv("SLURMDOCTOR_RULES", str(tmp_path / "gone"))
    with pytest.raises(UserError, match=r"SLURMDOCTOR_RULES names .*gone"):
        folders()


@pytest.fixture
def kept(tmp_path: Path, ours: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The user's cache folder, where nothing came with the program."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(usercache, "READY", str(tmp_path / "none"))
    _loaded.clear()
    return tmp_path / "cache" / "slurmdoctor"


def test_the_second_time_the_rules_come_from_the_cache(kept: Path, ours: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = load((ours,))
    (file,) = kept.glob("*.rules")
    assert kept.stat().st_mode & 0o777 == 0o700
    assert file.stat().st_mode & 0o777 == 0o600
    monkeypatch.setattr("slurmdoctor.knowledge.rule_reader.read", None)
    _loaded.clear()  # as in another process
    assert load((ours,)) == first


def test_a_diagnosis_is_spared_the_examples(kept: Path, ours: Path) -> None:
    whole = load((ours,))
    for known in (load((ours,), examples=False), load((ours,), examples=False, cache=False)):
        assert [(rule.id, rule.regex) for rule in known.rules] == [(rule.id, rule.regex) for rule in whole.rules]
        assert not any(rule.match or rule.no_match for rule in known.rules)
    assert all(rule.match for rule in load((ours,)).rules)
    _loaded.clear()
    assert load((ours,), examples=False) == known
    (bare,) = kept.glob("*.bare")
    assert not any(example.encode() in bare.read_bytes() for rule in whole.rules for example in rule.match)


def test_a_changed_rule_file_is_read_again_and_one_that_changes_while_it_is_read_is_not_kept(
    kept: Path, ours: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = ours / "storage" / "tape.yaml"

    def reading(folders: Sequence[Path]) -> LoadedRules:
        done = read(folders)
        put(file, file.read_text().replace("lost the", "miss the"))
        return done

    with monkeypatch.context() as patch:
        patch.setattr("slurmdoctor.knowledge.rule_reader.read", reading)
        assert load((ours,)).causes["tape"].title == "lost the tape library"
    assert not kept.exists()
    assert load((ours,)).causes["tape"].title == "miss the tape library"


@pytest.mark.parametrize("odd", [b"", b"\0" * 40, b"rubbish", 7, [], {"causes": {}}, [{"a": "b"}, [], []]])
def test_a_damaged_cache_and_one_with_odd_content_are_ignored(kept: Path, ours: Path, odd: object) -> None:
    first = load((ours,))
    (file,) = kept.glob("*.rules")
    data = file.read_bytes()
    if isinstance(odd, bytes):
        file.write_bytes(data[: len(data) // 2] + odd)
    else:
        usercache.put(file.name, zlib.compress(msgpack.encode(odd)))
    assert known_in(file.stem) is None
    _loaded.clear()
    assert load((ours,)) == first
    assert file.read_bytes() == data


def test_without_a_cache_folder_all_works(ours: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(put(tmp_path / "file", "")))
    assert load((ours,)).causes


def test_a_warm_cache_needs_neither_yaml_nor_regex(kept: Path, ours: Path) -> None:
    load((ours,))
    code = (
        "import sys; from pathlib import Path; from slurmdoctor.knowledge import load;"
        f" load((Path({str(ours)!r}),)); print(sorted({{'yaml', 'regex', 'difflib', 'tempfile'}} & set(sys.modules)))"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"
