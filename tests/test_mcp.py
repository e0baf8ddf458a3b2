"""The server for agents, asked by the SDK's own client over stdio."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp import Client, StdioServerParameters
from mcp.server.mcpserver.exceptions import ToolError
from mcp.types import CallToolResult

from slurmdoctor import diagnose
from slurmdoctor.cli import sandbox as bounded
from slurmdoctor.cli import server as server
from slurmdoctor.model import UserError

OOM = "[rank3]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 3 has a total capacity\n"
SECRET = "hf" + "_" + "AbCdEfGhIjKlMnOp" * 2 + "QrSt"


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


def talk(ask: Callable[[Client], Awaitable[None]], *options: str, path: str = "") -> None:
    """Start `slurmdoctor mcp` and let the client ask it."""
    environment = {**os.environ, "PATH": f"{path}:{os.environ['PATH']}"}
    start = StdioServerParameters(command=sys.executable, args=["-m", "slurmdoctor", "mcp", *options], env=environment)

    async def run() -> None:
        async with Client(start, read_timeout_seconds=120) as client:
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
            assert tool.annotations is not None
            assert tool.annotations.read_only_hint
            assert tool.annotations.idempotent_hint
            assert not tool.annotations.destructive_hint
            assert tool.annotations.open_world_hint == (tool.name == "diagnose_job")
            if tool.name.startswith("diagnose"):
                assert tool.output_schema is not None
                assert {"verdict", "cause", "first_failure", "fixes"} <= set(tool.output_schema["properties"])
        assert tools["diagnose_text"].input_schema["properties"]["text"]["maxLength"] == bounded.MOST_TEXT
        assert tools["diagnose_job"].input_schema["properties"]["job_id"]["pattern"]

        paste = f"```\nexport HF_TOKEN={SECRET}\n{OOM}# {SECRET}\n```"
        result = await client.call_tool("diagnose_text", {"text": paste})
        found = report(result)
        assert found["cause"]["id"] == "cuda-oom"
        assert found["first_failure"]["rank"] == 3
        assert len(found["coverage"]["notes"]) == 1
        assert said(result).startswith("**✗ rank 3 ran out of GPU memory**")
        assert len(said(result)) <= 1500

        named = await client.call_tool("diagnose_text", {"text": "/etc/passwd"})  # text is never taken for a path
        assert report(named)["verdict"] == "unknown"
        assert "root:" not in json.dumps(named.structured_content)

        for path in ("job.log", str(site / "logs" / "job.log")):
            found = report(await client.call_tool("diagnose_path", {"path": path}))
            assert found["cause"]["id"] == "cuda-oom"
        found = report(await client.call_tool("diagnose_path", {"path": str(site / "logs")}))
        assert found["cause"]["id"] == "cuda-oom"
        assert "outside of the folders" in str(found["coverage"]["missing"])
        assert "someone else" not in json.dumps(found)

        page = await client.call_tool("explain_cause", {"cause": "cuda-oom"})
        assert "What to do" in said(page)
        page = await client.call_tool("explain_cause", {"cause": "cuda-omo"})
        assert page.is_error
        assert "did you mean `cuda-oom`" in said(page)
        listed = report(await client.call_tool("list_causes", {}))["causes"]
        assert {"cuda-oom", "collective-timeout"} <= {cause["id"] for cause in listed}

    talk(ask, "--allow", str(site / "logs"))


def test_what_is_outside_is_refused(site: Path) -> None:
    async def ask(client: Client) -> None:
        for path in (
            str(site / "outside" / "other.log"),
            "../outside/other.log",
            str(site / "logs" / ".." / "outside" / "other.log"),
            "link.log",
            "folder/other.log",
            "folder",
            "/etc/passwd",
            "/etc/not-there",
            "-/../../outside",
        ):
            result = await client.call_tool("diagnose_path", {"path": path})
            assert result.is_error, path
            assert "is outside of the folders" in said(result), path
            assert "someone else" not in said(result)
        for tool, wrong in (
            ("diagnose_path", {"path": "-"}),  # a file's name here, not standard input
            ("diagnose_path", {"path": "*.log"}),
            ("diagnose_path", {"path": "a\0b"}),
            ("diagnose_path", {"path": "x" * 5000}),
            ("diagnose_path", {}),
            ("diagnose_text", {"text": ""}),
            ("diagnose_job", {"job_id": "--help"}),
            ("diagnose_job", {"job_id": "1;id"}),
        ):
            assert (await client.call_tool(tool, wrong)).is_error, wrong

    talk(ask, "--allow", str(site / "logs"))


def test_without_a_folder_no_path_is_read(site: Path) -> None:
    async def ask(client: Client) -> None:
        result = await client.call_tool("diagnose_path", {"path": str(site / "logs" / "job.log")})
        assert result.is_error
        assert "--allow DIR" in said(result)

    talk(ask)


def test_a_job_through_slurm(site: Path) -> None:
    """The job's own log is read where it is allowed; another one is left out, and Slurm's records still speak."""
    tools = site / "bin"
    tools.mkdir()
    (tools / "sacct").write_text("#!/bin/sh\nexit 1\n")
    (tools / "scontrol").write_text(
        "#!/bin/sh\n"
        '[ "$2" = job ] || exit 1\n'
        'case "$4" in 7) log=outside/other.log;; *) log=logs/job.log;; esac\n'
        "cat << END\nJobId=$4 JobName=x\n   UserId=kim(1)\n   JobState=FAILED Reason=NonZeroExitCode\n   ExitCode=1:0\n"
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

    talk(ask, "--allow", str(site / "logs"), path=str(tools))


def test_strict_redaction_at_the_server() -> None:
    async def ask(client: Client) -> None:
        text = OOM + "srun: error: tucana17: task 3: Exited with exit code 1\n"
        assert "tucana17" not in json.dumps(report(await client.call_tool("diagnose_text", {"text": text})))

    talk(ask, "--redact", "strict")


def test_time_is_bounded() -> None:
    with pytest.raises(ToolError, match=r"no answer within 0.01 s"):
        anyio.run(server._run_sandbox, {"text": OOM}, 0.01)


def test_the_worker_answers_in_one_json_object_whatever_happens() -> None:
    broken: list[dict[str, Any]] = [
        {"text": "\ud800"},
        {"path": "x"},
        {"job_id": "x"},
        {},
        {"text": "a", "rules": ["/none"]},
    ]
    for question in broken:
        done = subprocess.run(
            [sys.executable, "-m", "slurmdoctor.cli.sandbox"],
            input=json.dumps(question).encode(),
            capture_output=True,
            timeout=60,
            check=True,
        )
        told = json.loads(done.stdout)
        assert ("error" in told) != ("report" in told)
        assert done.stderr == b""


def test_text_is_bounded() -> None:
    assert "longer than 10 MiB" in bounded.answer({"text": "x" * (bounded.MOST_TEXT + 1)})["error"]


def test_only_regular_files_are_read(site: Path) -> None:
    os.mkfifo(site / "logs" / "pipe.log")
    with pytest.raises(UserError, match="holds no log file"):
        bounded.files_at("pipe.log", [site / "logs"])
    files, left_out = bounded.files_at(str(site / "logs"), [site / "logs"])
    assert [Path(file).name for file in files] == ["job.log"]
    assert left_out == 2


def test_a_folder_beside_an_allowed_one_is_outside(tmp_path: Path) -> None:
    assert not bounded.is_under(tmp_path / "logs-of-others", [tmp_path / "logs"])
    assert bounded.is_under(tmp_path / "logs" / ".." / "logs" / "a", [tmp_path / "logs"])


def test_without_the_extra_one_line_says_what_to_install() -> None:
    program = "import sys; sys.modules['mcp'] = None; from slurmdoctor.cli import main; main()"
    done = subprocess.run([sys.executable, "-c", program, "mcp"], capture_output=True, text=True, timeout=60)
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1
    assert "pip install 'slurmdoctor[mcp]'" in done.stderr


def test_an_allowed_folder_that_is_none() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "slurmdoctor", "mcp", "--allow", "/not/there"],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 2
    assert "is no folder" in done.stderr


def test_the_worker_says_what_python_says() -> None:
    assert bounded.answer({"text": OOM})["report"]["cause"] == diagnose(OOM).to_dict()["cause"]
