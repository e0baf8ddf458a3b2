"""scontrol and sacct as programs of a test's own, which print what those of a version of Slurm print."""

import json
import stat
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from cases import inside, run
from slurmdoctor.slurm.jobinfo import FIELDS

Rows = Sequence[Mapping[str, str]]

SINCE = {"SubmitLine": (21, 8), "StdOut": (24, 5), "StdErr": (24, 5)}
"""Fields of sacct that older versions do not know."""

_SACCT = """#!{python} -IS
import json, sys
args, table = sys.argv[1:], json.loads({table!r})
open({asked!r}, "a").write(" ".join(["sacct", *args]) + "\\n")
if "-B" in args:
    sys.exit(1)
if args == ["-e"]:
    sys.exit(print(*{known!r}, sep="\\n"))
fields = args[args.index("-o") + 1].split(",")
mark = next((a.partition("=")[2] for a in args if a.startswith("--delimiter=")), "|")
wanted = args[args.index("-j") + 1]
print(mark.join(fields))
for row in table:
    job, _, step = row["JobID"].partition(".")
    if wanted in (job, row.get("JobIDRaw", ""), job.partition("_")[0], job.partition("+")[0]):
        print(mark.join(row.get(field, "") for field in fields))
"""
_SCONTROL = """#!{python} -IS
import json, sys
args, jobs, script = sys.argv[1:], json.loads({jobs!r}), {script!r}
open({asked!r}, "a").write(" ".join(["scontrol", *args]) + "\\n")
if args[:2] == ["write", "batch_script"] and script:
    print(script)
elif args[:2] == ["show", "job"] and args[-1] in jobs:
    print(jobs[args[-1]])
else:
    sys.exit("slurm_load_jobs error: Invalid job id specified")
"""
_SAYS = "#!{python} -IS\nimport sys\nsys.exit({text!r})\n"


class FakeSlurm:
    """Programs in a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)

    def diagnose(self, folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
        """`slurmdoctor diagnose ...` in a folder, in this process."""
        with inside(folder):
            done = run("diagnose", *words, PATH=str(self.folder))
        return subprocess.CompletedProcess(done.args, done.returncode, done.stdout.decode(), done.stderr.decode())

    @property
    def asked(self) -> str:
        """What was asked, a line a call."""
        file = self.folder / "asked"
        return file.read_text() if file.exists() else ""

    def scontrol(self, jobs: Mapping[str, str] | None = None, script: str = "") -> None:
        """`jobs`: id -> what `scontrol show job` prints."""
        self._put("scontrol", _SCONTROL, jobs=json.dumps(dict(jobs or {})), script=script)

    def sacct(self, version: tuple[int, int], rows: Rows) -> None:
        known = [field for field in FIELDS if version >= SINCE.get(field, (0, 0))]
        self._put("sacct", _SACCT, table=json.dumps(list(rows)), known=known)

    def says(self, program: str, text: str) -> None:
        """The program only complains."""
        self._put(program, _SAYS, text=text)

    def _put(self, name: str, template: str, **values: object) -> None:
        file = self.folder / name
        file.write_text(template.format(python=sys.executable, asked=str(self.folder / "asked"), **values))
        file.chmod(file.stat().st_mode | stat.S_IXUSR)
