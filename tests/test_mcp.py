"""The server for agents, asked by the SDK's own client over stdio."""

import io
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, Literal

import anyio
import pytest
from mcp import Client
from mcp.server.mcpserver.exceptions import ToolError
from mcp.types import CallToolResult

from slurmdoctor import diagnose
from slurmdoctor.cli import sandbox, server
from slurmdoctor.cli.mcp import LONGEST_LINE, Bounded
from slurmdoctor.model import UserError

OOM = "[rank3]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 3 has a total capacity\n"
QUIET = "loader opened a shard of the data set\n"
SECRET = "hf" + "_" + "AbCdEfGhIjKlMnOp" * 2 + "QrSt"
CONTRACT = {"verdict", "cause", "first_failure", "fixes"}


@pytest.fixture
def site(tmp_path: Path) -> Path:
    """An allowed folder with a job's log and three ways out, beside a log that is not allowed."""
    logs = tmp_path / "logs"
    logs.mkdir()
    (logs / "job.log").write_text("step 1\n" + OOM)
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "other.log").write_text("KeyError: 'someone else'\n")
    (logs / "link.log").symlink_to(outside / "other.log")
    (logs / "folder").symlink_to(outside)
    return tmp_path


def talk(
    ask: Callable[[Client], Awaitable[None]], *allowed: Path, redact: Literal["default", "strict"] = "default"
) -> None:
    """Let a client ask a server of this process."""

    async def run() -> None:
        async with Client(server.serve(server.Settings(allowed, redact=redact)), read_timeout_seconds=120) as client:
            await ask(client)

    anyio.run(run)


def said(result: CallToolResult) -> str:
    return "".join(getattr(block, "text", "") for block in result.content)


def report(result: CallToolResult) -> dict[str, Any]:
    assert not result.is_error, said(result)
    assert isinstance(result.structured_content, dict)
    return result.structured_content


def test_a_client_lists_the_tools_and_asks_each(site: Path) -> None:
    async def ask(client: Client) -> None:
        tools = {tool.name: tool for tool in (await client.list_tools()).tools}
        assert set(tools) == {"diagnose_text", "diagnose_path", "diagnose_job", "explain_cause", "list_causes"}
        for tool in tools.values():
            assert tool.description
            hints: Any = tool.annotations
            assert (hints.read_only_hint, hints.idempotent_hint, hints.destructive_hint) == (True, True, False)
            assert hints.open_world_hint == (tool.name == "diagnose_job")
            told = (tool.output_schema or {}).get("properties", {}) if tool.name.startswith("diagnose") else CONTRACT
            assert set(told) >= CONTRACT
        assert tools["diagnose_text"].input_schema["properties"]["text"]["maxLength"] == sandbox.MOST_TEXT
        assert tools["diagnose_job"].input_schema["properties"]["job_id"]["pattern"]

        paste = f"```\nexport HF_TOKEN={SECRET}\n{OOM}# {SECRET}\n```"
        result = await client.call_tool("diagnose_text", {"text": paste})
        found = report(result)
        assert (found["cause"]["id"], found["first_failure"]["rank"]) == ("cuda-oom", 3)
        assert found["cause"] == diagnose(OOM).to_dict()["cause"]
        assert len(found["coverage"]["notes"]) == 1
        assert said(result).startswith("**✗ rank 3 ran out of GPU memory**")
        assert len(said(result)) <= 1500

        named = await client.call_tool("diagnose_text", {"text": "/etc/passwd"})  # text is never taken for a path
        assert report(named)["verdict"] == "unknown"
        assert "root:" not in json.dumps(named.structured_content)

        for path in ("job.log", str(site / "logs" / ".." / "logs" / "job.log"), str(site / "logs")):
            found = report(await client.call_tool("diagnose_path", {"path": path}))
            assert found["cause"]["id"] == "cuda-oom"
        assert "outside of the folders" in str(found["coverage"]["missing"])
        assert "someone else" not in json.dumps(found)

        assert "What to do" in said(await client.call_tool("explain_cause", {"cause": "cuda-oom"}))
        assert "may mean" in said(await client.call_tool("explain_cause", {"cause": "OOM"}))
        page = await client.call_tool("explain_cause", {"cause": "cuda-omo"})
        assert (page.is_error, "did you mean `cuda-oom`" in said(page)) == (True, True)
        listed = report(await client.call_tool("list_causes", {}))["causes"]
        assert {"cuda-oom", "collective-timeout"} <= {cause["id"] for cause in listed}

    talk(ask, site / "logs")


def test_a_folder_of_several_jobs_is_a_list_and_one_can_be_picked(site: Path) -> None:
    folder = site / "logs" / "mine"
    folder.mkdir()
    (folder / "slurm-4711.out").write_text(OOM)
    (folder / "slurm-4712.out").write_text("step 1\nTraining completed.\n")

    async def ask(client: Client) -> None:
        result = await client.call_tool("diagnose_path", {"path": "mine"})
        found = report(result)
        assert {one["job"]["id"]: one["verdict"] for one in found["jobs"]} == {"4711": "failed", "4712": "no-failure"}
        assert (found["job"]["id"], found["cause"]["id"]) == ("4711", "cuda-oom")
        assert said(result).startswith("**2 jobs: 1 cuda-oom; 1 without failure**")
        found = report(await client.call_tool("diagnose_path", {"path": "mine", "of_job": "4712"}))
        assert (found["job"]["id"], found["verdict"], found.get("jobs")) == ("4712", "no-failure", None)
        for wrong, word in (({"of_job": "4713"}, "no job 4713"), ({"exit_status": 1}, "of_job")):
            refused = await client.call_tool("diagnose_path", {"path": "mine", **wrong})
            assert (refused.is_error, word in said(refused)) == (True, True)

    talk(ask, site / "logs")


@pytest.mark.parametrize(
    "path",
    [
        "{site}/outside/other.log",
        "{site}/logs-of-others/other.log",
        "../outside/other.log",
        "{site}/logs/../outside/other.log",
        "link.log",
        "folder/other.log",
        "folder",
        "/etc/passwd",
        "/etc/not-there",
        "-/../../outside",
    ],
)
def test_what_is_outside_is_refused(site: Path, path: str) -> None:
    told = sandbox.answer({"path": path.format(site=site), "allowed": [str(site / "logs")]})
    assert "is outside of the folders" in told["error"]
    assert "someone else" not in told["error"]


def test_what_is_no_question_is_refused(site: Path) -> None:
    async def ask(client: Client) -> None:
        for tool, wrong in (
            ("diagnose_path", {"path": "link.log"}),
            ("diagnose_path", {"path": "a\0b"}),
            ("diagnose_path", {"path": "x" * 5000}),
            ("diagnose_path", {}),
            ("diagnose_text", {"text": ""}),
            *(("diagnose_job", {"job_id": word}) for word in ("--help", "1;id", "١٢٣", "1\n", "1" * 13)),
        ):
            assert (await client.call_tool(tool, wrong)).is_error, wrong
        for tool, key in (("diagnose_path", "path"), ("explain_cause", "cause")):
            told = said(await client.call_tool(tool, {key: "x\x1b]52;c;ZXZp\x07\x9b2J\u202egol\ny"}))
            assert told.isprintable(), tool
        too_long = await client.call_tool("diagnose_text", {"text": "x" * (sandbox.MOST_TEXT + 1)})
        assert (too_long.is_error, "send its first and last 4 MiB" in said(too_long)) == (True, True)

    talk(ask, site / "logs")
    assert "--allow DIR" in sandbox.answer({"path": str(site / "logs" / "job.log")})["error"]


def test_a_job_through_slurm(site: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The job's own log is read where it is allowed; another one is left out, and Slurm's records still speak."""
    tools = site / "bin"
    tools.mkdir()
    (tools / "sacct").write_text("#!/bin/sh\nexit 1\n")
    (tools / "scontrol").write_text(
        "#!/bin/sh\n"
        '[ "$2" = job ] || exit 1\n'
        'case "$4" in 7) log=outside/other.log;; *) log=logs/job.log;; esac\n'
        f"cat << END\nJobId=$4 JobName=x\n   UserId=kim({os.geteuid()})\n   JobState=FAILED Reason=NonZeroExitCode\n   ExitCode=1:0\n"
        "   RunTime=00:10:00 TimeLimit=01:00:00\n   StartTime=2026-11-20T10:00:00 EndTime=2026-11-20T10:10:00\n"
        f"   WorkDir={site}\n   StdErr={site}/$log\n   StdIn=/dev/null\n   StdOut={site}/$log\nEND\n"
    )
    for tool in tools.iterdir():
        tool.chmod(0o755)

    async def ask(client: Client) -> None:
        found = report(await client.call_tool("diagnose_job", {"job_id": "4242"}))
        assert found["cause"]["id"] == "cuda-oom"
        found = report(await client.call_tool("diagnose_job", {"job_id": "7"}))
        assert "someone else" not in json.dumps(found)
        assert "outside of the folders" in str(found["coverage"]["missing"])

    monkeypatch.setenv("PATH", f"{tools}:{os.environ['PATH']}")
    talk(ask, site / "logs")


def test_strict_redaction_at_the_server() -> None:
    async def ask(client: Client) -> None:
        text = OOM + "srun: error: tucana17: task 3: Exited with exit code 1\n"
        assert "tucana17" not in json.dumps(report(await client.call_tool("diagnose_text", {"text": text})))

    talk(ask, redact="strict")


def test_time_is_bounded() -> None:
    with pytest.raises(ToolError, match=r"no answer within 0.01 s"):
        anyio.run(server.Tools(server.Settings(seconds=0.01)).diagnose_text, OOM)


@pytest.mark.parametrize(
    "question", [{"text": "\ud800"}, {"path": "x"}, {"job_id": "x"}, {}, {"text": "a", "rules": ["/none"]}]
)
def test_the_worker_answers_whatever_it_is_asked(question: dict[str, Any]) -> None:
    told = json.loads(json.dumps(sandbox.answer(question)))
    assert ("error" in told) != ("report" in told)


def test_only_regular_files_are_read(site: Path) -> None:
    os.mkfifo(site / "logs" / "pipe.log")
    with pytest.raises(UserError, match="holds no log file"):
        sandbox.files_at("pipe.log", [site / "logs"])
    files, left_out = sandbox.files_at(str(site / "logs"), [site / "logs"])
    assert [Path(file).name for file in files] == ["job.log"]
    assert left_out == 1  # the link; a pipe is none of the folder's logs


def test_without_the_extra_one_line_says_what_to_install() -> None:
    program = "import sys; sys.modules['mcp'] = None; from slurmdoctor.cli import main; main()"
    done = subprocess.run([sys.executable, "-c", program, "mcp"], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert "pip install 'mcp>=2,<3'" in done.stderr


class Raw:
    """The server, spoken to line by line."""

    def __init__(self, *options: str, path: str = "") -> None:
        environment = {**os.environ, "PATH": f"{path}:{os.environ['PATH']}"}
        command = [sys.executable, "-m", "slurmdoctor", "mcp", *options]
        self.process: Any = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment)
        told = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}
        self.ask("first", "initialize", told)
        assert self.answer("first")["result"]["serverInfo"]["name"] == "slurmdoctor"
        self.send({"jsonrpc": "2.0", "method": "notifications/initialized"})

    def send(self, line: bytes | dict[str, Any]) -> None:
        self.process.stdin.write((line if isinstance(line, bytes) else json.dumps(line).encode()) + b"\n")
        self.process.stdin.flush()

    def ask(self, ident: str, method: str, params: dict[str, Any]) -> None:
        self.send({"jsonrpc": "2.0", "id": ident, "method": method, "params": params})

    def call(self, ident: str, tool: str, **arguments: str) -> None:
        self.ask(ident, "tools/call", {"name": tool, "arguments": arguments})

    def answer(self, ident: str) -> dict[str, Any]:
        """The next line, which must be the answer to this."""
        found: dict[str, Any] = json.loads(self.process.stdout.readline())
        assert found.get("id") == ident, found
        return found

    def __enter__(self) -> "Raw":
        return self

    def __exit__(self, *_: object) -> None:
        self.process.stdin.close()
        self.process.wait(60)
        self.process.stdout.close()


def test_what_cannot_be_read_does_not_stop_the_server_and_an_interrupt_does() -> None:
    with Raw() as server:
        for line in (b"hello\x1b]52;c;ZXZp\x07", b"\xff\xfe\x00", b"[" * 3000 + b"]" * 3000, b"{}", b""):
            server.send(line)
        server.ask("last", "ping", {})
        assert server.answer("last")["result"] == {}
        server.process.send_signal(signal.SIGINT)
        assert server.process.wait(60) == -signal.SIGINT


@pytest.fixture
def slow(tmp_path: Path) -> Path:
    """A Slurm that never answers, and notes for which jobs it was asked, and by which process."""
    tools, asked = tmp_path / "bin", tmp_path / "asked"
    tools.mkdir()
    asked.mkdir()
    for name in ("scontrol", "sacct"):
        (tools / name).write_text(f'#!/bin/sh\necho $$ > "{asked}/{name}-$4"\nexec sleep 1000\n')
        (tools / name).chmod(0o755)
    return tmp_path


def until(there: Callable[[], object]) -> None:
    """Wait for what another process does."""
    end = time.monotonic() + 60
    while not there():
        assert time.monotonic() < end
        time.sleep(0.02)


def alive(file: Path) -> bool:
    try:
        os.kill(int(file.read_text()), 0)
    except (ProcessLookupError, ValueError, FileNotFoundError):
        return False
    return True


def test_slow_questions_hold_up_no_quick_one(slow: Path) -> None:
    """Two wait for Slurm, another one waits for them; a paste and a cause are answered meanwhile."""
    jobs = [str(4000 + number) for number in range(server.AT_ONCE + 1)]
    with Raw(path=str(slow / "bin")) as raw:
        for job in jobs:
            raw.call(job, "diagnose_job", job_id=job)
        raw.call("paste", "diagnose_text", text=OOM)
        assert raw.answer("paste")["result"]["structuredContent"]["cause"]["id"] == "cuda-oom"
        raw.call("cause", "explain_cause", cause="cuda-oom")
        assert "What to do" in raw.answer("cause")["result"]["content"][0]["text"]

        first, third = slow / "asked" / f"scontrol-{jobs[0]}", slow / "asked" / f"scontrol-{jobs[2]}"
        until(lambda: alive(first))
        assert not third.exists()
        raw.send({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": jobs[0]}})
        until(lambda: not alive(first))
        until(lambda: alive(third))  # its place is free
    assert raw.process.returncode == 0
    until(lambda: not alive(third))  # nobody is left who wants to know


def test_an_interrupt_leaves_no_program_of_slurm_behind(slow: Path) -> None:
    environment = {**os.environ, "PATH": f"{slow / 'bin'}:{os.environ['PATH']}"}
    command = [sys.executable, "-m", "slurmdoctor", "diagnose", "--job", "4242"]
    process = subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL)
    asked = slow / "asked"
    until(lambda: alive(asked / "scontrol-4242"))  # the other one is just being started
    process.send_signal(signal.SIGINT)
    assert process.wait(60) == 130
    until(lambda: not any(map(alive, asked.iterdir())))


def test_a_question_says_what_it_has_when_most_of_its_time_is_over(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[dict[str, Any]] = []

    async def noted(question: dict[str, Any]) -> dict[str, Any]:
        asked.append(question)
        return {"report": {}, "markdown": ""}

    monkeypatch.setattr(server, "_run_sandbox", noted)

    async def run() -> None:
        await server.Tools(server.Settings(seconds=40)).diagnose_text(OOM)

    anyio.run(run)
    assert asked[0]["time_limit"] == 30
    notes = sandbox.answer({"text": QUIET * 9000 + OOM, "time_limit": 1e-9})["report"]["coverage"]["notes"]
    assert any(note.startswith("stopped reading after the limit of 1e-09 s") for note in notes)


@pytest.mark.parametrize("piece", [1, 7, 100])
def test_a_request_without_an_end_does_not_fill_the_memory(piece: int) -> None:
    data = b"short\n" + b"x" * 50 + b"\nnext\n" + b"y" * 9 + b"\n" + b"z" * 30
    lines = io.TextIOWrapper(Bounded(io.BufferedReader(io.BytesIO(data), piece), 10))  # type: ignore[type-var]
    assert list(lines) == ["short\n", "x" * 10 + "\n", "next\n", "y" * 9 + "\n", "z" * 10]
    assert LONGEST_LINE >= 6 * sandbox.MOST_TEXT  # `\u00e9`
