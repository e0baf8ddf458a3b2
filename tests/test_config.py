"""`slurmdoctor.toml`: what it sets holds where the command line says nothing; what is wrong with it is one line."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from cases import LOG, one_line, run
from rule_files import cause_file, put
from slurmdoctor.cli import config as settings
from slurmdoctor.cli.config import TABLES, VARIABLES

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

Write = Callable[..., Path]


def call(*words: str | Path, **environment: str) -> tuple[int, str, str]:
    """The exit status, what is printed, and what is said on standard error."""
    called = run(*words, stdin=b"", **environment)
    return called.returncode, called.stdout.decode(), called.stderr.decode()


@pytest.fixture
def write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Write:
    """Writes the user's file, or the site's; nobody else's is there."""
    monkeypatch.delenv(settings.VARIABLE, raising=False)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "user"))
    monkeypatch.setattr(settings, "SITE", str(tmp_path / "site" / "slurmdoctor.toml"))
    monkeypatch.chdir(tmp_path)

    def _write(text: str, whose: str = "user") -> Path:
        path = tmp_path / ("user/slurmdoctor" if whose == "user" else whose) / "slurmdoctor.toml"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return path

    return _write


def test_a_file_sets_what_the_command_line_does_not(write: Write) -> None:
    write('[diagnose]\nformat = "json"\nexit-code = true\nredact = "strict"\n[lint]\nformat = "github"\n')
    status, out, _ = call("diagnose", LOG)
    assert (status, json.loads(out)["first_failure"]["node"]) == (1, "host-1")
    assert call("diagnose", "--format", "text", LOG)[1].startswith("✗ rank 5")
    assert "gpu-a2" in call("diagnose", "--redact", "off", LOG)[1]
    Path("job.sbatch").write_text("#!/bin/bash\nsrun a\n#SBATCH --mem=4G\n")
    assert call("lint", "job.sbatch")[1].startswith("::")


def test_the_users_file_is_stronger_than_the_sites(write: Write) -> None:
    write('redact = "strict"\n[diagnose]\nformat = "markdown"\n', "site")
    write('[diagnose]\nformat = "json"\n')
    assert json.loads(call("diagnose", LOG)[1])["first_failure"]["node"] == "host-1"


def test_a_variable_names_another_file_or_none(write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    write('[diagnose]\nformat = "json"\n')
    monkeypatch.setenv(settings.VARIABLE, str(write('[diagnose]\nformat = "slack"\n', "other")))
    assert "blocks" in json.loads(call("diagnose", LOG)[1])
    monkeypatch.setenv(settings.VARIABLE, os.devnull)
    assert call("diagnose", LOG)[1].startswith("✗")


def test_an_ending_is_stronger_than_a_file_and_one_in_the_working_folder_is_not_read(write: Write) -> None:
    Path("slurmdoctor.toml").write_text('[diagnose]\nformat = "json"\n')
    assert call("diagnose", LOG)[1].startswith("✗")
    write('[diagnose]\nformat = "json"\n')
    assert call("diagnose", LOG, "-o", "report.md") == (0, "", "")
    assert Path("report.md").read_text().startswith("**✗")


def test_rules_of_a_file_stand_beside_it_and_hold_for_all_commands(write: Write) -> None:
    folder = write('rules = ["ours"]\n').parent / "ours"
    put(folder / "lost-tape.yaml", cause_file("site/lost-tape"))
    assert "site/lost-tape" in call("rules", "list")[1]
    assert "A rank lost the tape library" in call("explain", "site/lost-tape")[1]


WRONG = {
    '[diagnose]\nformt = "json"\n': ("no key `formt` in [diagnose]", "did you mean `format`?"),
    '[diagnose]\n\nformat = "jsno"\n': ('`format` cannot be "jsno"', "'text', 'json'"),
    "[diagnose]\nformat = 3\n": ("`format` cannot be 3", "'text', 'json'"),
    '[diagnose]\nexit-code = "perhaps"\n': ("not a valid boolean",),
    "[diagnose]\ntime_limit = 0\n": ("`time-limit` cannot be 0", "1<=x<=86400"),
    "[diagnose]\nrules = [1]\n": ("a list of texts",),
    '[diagnose]\njob = "4711"\n': ("no key `job` in [diagnose]",),
    "[diagnos]\n": ("no table `diagnos`", "did you mean `diagnose`?"),
    '\nredcat = "strict"\n': ("did you mean `redact`?",),
    'format = "json"\n': ("put it below [diagnose]",),
    "diagnose = 3\n": ("`diagnose` belongs to no command here",),
    "[diagnose]\nformat = json\n": ("it is no TOML",),
    "[diagnose\n": ("it is no TOML",),
    "\xff": ("no text in UTF-8", "save it as UTF-8"),
    'rules = ["nowhere"]\n': ("nowhere", "not there"),
}


@pytest.mark.parametrize("text", WRONG)
def test_a_wrong_file_is_one_line(text: str, write: Write) -> None:
    path = write("")
    path.write_bytes(text.encode("latin-1"))
    status, out, told = call("diagnose", LOG)
    assert (status, out, told.count("\n")) == (2, "", 1)
    assert told.startswith("slurmdoctor: ")
    for words in (str(path.parent), *WRONG[text]):
        assert words in told


def test_a_wrong_table_stops_only_its_own_command(write: Write) -> None:
    write('[lint]\nformat = "jsno"\n')
    assert call("diagnose", LOG)[0] == 0
    assert call("lint", LOG)[0] == 2
    assert call("config")[0] == 2
    assert [call(*words)[0] for words in (["help"], ["--version"])] == [0, 0]


def test_a_file_that_others_may_write_to_is_refused(write: Write) -> None:
    path = write('[diagnose]\nformat = "json"\n')
    path.chmod(0o666)
    status, out, told = call("diagnose", LOG)
    assert (status, out, "every user may write to it" in told) == (2, "", True)
    path.chmod(0o644)
    path.parent.chmod(0o777)
    assert call("diagnose", LOG)[0] == 2


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
def test_another_users_file_is_refused(write: Write) -> None:
    os.chown(write("[diagnose]\n"), 12345, 12345)
    assert "another user's" in call("diagnose", LOG)[2]


def test_what_is_no_file_is_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for name, why in (("pipe", "no regular file"), ("", ""), ("none", "none")):
        called = run("diagnose", LOG, SLURMDOCTOR_CONFIG=str(tmp_path / name))
        one_line(called, why, "SLURMDOCTOR_CONFIG=/dev/null")


def test_a_jobs_footer_goes_on_without_a_wrong_file(
    write: Write, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("SLURM_JOB_ID", "4711")
    monkeypatch.setenv("PATH", str(tmp_path))  # no Slurm
    write("[[[\n")
    status, out, told = call("footer", "--status", "1", "--shell", "1")
    assert (status, "--- end of slurmdoctor ---" in out) == (0, True)
    assert ("it is no TOML" in told, "(ignored)" in told) == (True, True)


def test_config_shows_each_setting_and_where_it_is_from(write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    site = write('redact = "strict"\n[hook]\ntimeout = 60\n', "site")
    user = write('[diagnose]\nexit_code = true\n\n[hook]\nwhen = "always"\n')
    monkeypatch.setenv("SLURMDOCTOR_RULES", str(user.parent))
    shown = call("config", NO_COLOR="")[1]
    lines = [" ".join(line.split()) for line in shown.splitlines()]
    of_site = {f'redact = "strict" # site: {site}', f"timeout = 60 # site: {site}"}
    others = {f"exit-code = true # user: {user}", 'format = "text" # default'}
    assert {*of_site, *others, f"# SLURMDOCTOR_RULES={user.parent} (environment)"} <= set(lines)
    assert not any("NO_COLOR" in line for line in lines)
    assert lines[0] == f"# {site}: read (site)"


def test_what_config_shows_is_a_config_file(write: Write) -> None:
    write('[diagnose]\nformat = "json"\n')
    shown = call("config")[1]
    assert tomllib.loads(shown)["diagnose"]["format"] == "json"
    write(shown)
    assert json.loads(call("diagnose", LOG)[1])["verdict"] == "failed"


def test_the_example_of_the_docs_is_right(write: Write) -> None:
    text = (Path(__file__).parents[1] / "docs" / "shell.md").read_text()
    (example,) = re.findall(r"```toml\n(.*?)```", text, re.S)
    write(example.replace('rules = ["rules.d", "~/my-rules"]', ""))
    assert call("config")[0] == 0
    assert call("diagnose", LOG)[0] == 1
    for name in (*TABLES, *VARIABLES):
        assert f"`{name}" in text, name


def test_where_no_file_is_no_reader_is_imported() -> None:
    code = "import sys; from slurmdoctor import cli; cli._run(); sys.exit('tomllib' in sys.modules or 'tomli' in sys.modules)"
    command = [sys.executable, "-c", code, "diagnose", os.devnull]
    assert subprocess.run(command, capture_output=True, timeout=60).returncode == 0
