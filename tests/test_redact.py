"""No secret leaves; nothing but a secret is masked; no control character survives."""

from __future__ import annotations

import base64
import json
import random
import string
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from cases import cases, verdict_of
from report_examples import CUDA_OOM, SILENT
from slurmdoctor import diagnose
from slurmdoctor.model import Diagnosis, Evidence, FirstFailure, Remedy
from slurmdoctor.report import render
from slurmdoctor.report import text_report as text
from slurmdoctor.report.redaction import Mode, Redactor, disarm, redact

LETTERS, ALNUM, HEX = string.ascii_letters, string.ascii_letters + string.digits, "0123456789abcdef"
UPPER, B64 = string.ascii_uppercase + string.digits, string.ascii_letters + string.digits + "+/"
URLSAFE = ALNUM + "-_"


def pick(rng: random.Random, chars: str, count: int) -> str:
    return "".join(rng.choice(chars) for _ in range(count))


def b64url(rng: random.Random, claims: dict[str, object]) -> str:
    return base64.urlsafe_b64encode(json.dumps({**claims, "n": rng.random()}).encode()).decode().rstrip("=")


# Each kind gives (the secret, the line that holds it). Prefixes are put together here, so that no scanner of
# this repository takes a made-up token for a real one.
Planter = Callable[[random.Random], tuple[str, str]]


def prefixed(prefix: str, chars: str, count: int, *lines: str) -> Planter:
    def plant(rng: random.Random) -> tuple[str, str]:
        secret = prefix + pick(rng, chars, count)
        return secret, rng.choice(lines or ("{}", "token {} refused", "use '{}'.", "x={},", '  "k": "{}"')).format(
            secret
        )

    return plant  # fmt: skip


def assigned(names: str, chars: str, count: int) -> Planter:
    forms = (
        "export {}={}",
        "{}='{}'",
        '"{}": "{}"',
        "{}: {}",
        "+ {}={}",
        "'{}': '{}',",
        "--env {}={}",
        "{} = {}",
    )

    def plant(rng: random.Random) -> tuple[str, str]:
        secret = pick(rng, string.ascii_letters, 3) + pick(rng, chars, count - 6) + "7" + pick(rng, ALNUM, 2)
        return secret, rng.choice(forms).format(rng.choice(names.split()), secret)

    return plant


def jwt(rng: random.Random) -> tuple[str, str]:
    secret = ".".join([b64url(rng, {"alg": "HS256"}), b64url(rng, {"sub": "job"}), pick(rng, URLSAFE, 43)])
    return secret, rng.choice(["SLURM_JWT={}", "token {}", "jwt: '{}'"]).format(secret)


def basic(rng: random.Random) -> tuple[str, str]:
    secret = base64.b64encode(f"user:{pick(rng, ALNUM, 12)}".encode()).decode()
    return secret, rng.choice(["Authorization: Basic {}", "-H 'authorization: Basic {}'", "sent Basic {}"]).format(
        secret
    )


def url_password(rng: random.Random) -> tuple[str, str]:
    secret = pick(rng, ALNUM + "!-_.@", 14)
    scheme = rng.choice(["https", "postgresql", "redis", "http", "amqp", "s3+https"])
    return secret, f"connecting to {scheme}://svc:{secret}@db.example.org:5432/x failed"


def private_key(rng: random.Random) -> tuple[str, str]:
    body = [pick(rng, B64, 64) for _ in range(4)]
    kind = rng.choice(["RSA ", "", "EC ", "OPENSSH "])
    joint = rng.choice(["\n", "\\n"])
    head, foot = f"-----BEGIN {kind}PRIVATE KEY-----", f"-----END {kind}PRIVATE KEY-----"
    return body[rng.randrange(4)], joint.join([head, *body, foot])


def service_account(rng: random.Random) -> tuple[str, str]:
    body = pick(rng, B64, 64)
    key = f"-----BEGIN PRIVATE KEY-----\\n{body}\\n-----END PRIVATE KEY-----\\n"
    return body, json.dumps({"type": "service_account"})[:-1] + f', "private_key": "{key}"}}'


def email(rng: random.Random) -> tuple[str, str]:
    secret = (
        f"{pick(rng, string.ascii_lowercase, 6)}.{pick(rng, ALNUM, 4)}@{pick(rng, string.ascii_lowercase, 7)}"
        + rng.choice([".com", ".edu", ".ac.uk", ".org", ".de"])
    )
    return secret, rng.choice(["mail to {}", "<{}>", "by {}.", "user={}", "--mail-user={}"]).format(secret)


PLANTS: dict[str, Planter] = {
    "hugging face": prefixed("hf" + "_", LETTERS, 34),
    "wandb": prefixed("", HEX, 40, "WANDB_API_KEY={}", "wandb login {}", "wandb: Paste an API key from your profile: {}",
                      "Namespace(wandb_key='{}')", "machine api.wandb.ai login user password {}"),
    "wandb v1": prefixed("wandb" + "_v1_", ALNUM, 77),
    "github classic": prefixed("gh" + "p_", ALNUM, 36, "https://{}@github.com/a/b", "{}", "GH={}"),
    "github oauth": prefixed("gh" + "o_", ALNUM, 36),
    "github fine": prefixed("github" + "_pat_", ALNUM + "_", 82),
    "gitlab": prefixed("gl" + "pat-", URLSAFE, 20, "https://oauth2:{}@gitlab.com/a/b", "{}", "using {} for clone"),
    "aws id": prefixed("AK" + "IA", UPPER, 16),
    "aws session id": prefixed("AS" + "IA", UPPER, 16),
    "aws secret": prefixed("", B64, 40, "AWS_SECRET_ACCESS_KEY={}", "aws_secret_access_key = {}", '"SecretAccessKey": "{}"'),
    "google": prefixed("AI" + "za", URLSAFE, 35),
    "gcp service account": service_account,
    "slack": prefixed("xo" + "xb-", ALNUM, 50),
    "slack webhook": prefixed("", ALNUM, 24, "https://hooks.slack.com/services/T0AAAAAAA/B0AAAAAAA/{}"),
    "ngc": prefixed("nv" + "api-", URLSAFE, 64),
    "openai": prefixed("s" + "k-proj-", URLSAFE, 60),
    "openai classic": prefixed("s" + "k-", ALNUM, 48),
    "anthropic": prefixed("s" + "k-ant-api03-", URLSAFE, 95),
    "jwt": jwt,
    "bearer": prefixed("", ALNUM, 32, "Authorization: Bearer {}", "'authorization': 'Bearer {}'", "-H \"Authorization: Bearer {}\""),
    "basic": basic,
    "url password": url_password,
    "private key": private_key,
    "azure sas": prefixed("", ALNUM, 43, "https://x.blob.core.windows.net/c/f?sv=2024&sig={}%3D", "?sp=r&sig={}&se=2026"),
    "pypi": prefixed("py" + "pi-AgEIcHlwaS5vcmc", URLSAFE, 130),
    "token variable": assigned("HF_TOKEN NGC_CLI_API_KEY X_TOKEN COMET_API_KEY SOME_SECRET MY_ACCESS_TOKEN api_key token", ALNUM, 30),
    "password variable": assigned("DB_PASSWORD PGPASSWORD password MINIO_SECRET_KEY REDIS_PASS", ALNUM + "!-_", 14),
    "e-mail": email,
}  # fmt: skip


@pytest.mark.parametrize("kind", PLANTS)
def test_no_secret_is_missed(kind: str) -> None:
    rng = random.Random(kind)
    for _ in range(50):
        secret, line = PLANTS[kind](rng)
        for context in (line, f"[rank3]: {line}", f"RuntimeError: boom {line} (in step 3)"):
            masked = redact(context)
            assert secret not in masked, context
            assert "[redacted " in masked
            assert redact(masked) == masked


@pytest.mark.parametrize("kind", PLANTS)
def test_no_secret_leaves_in_any_format(kind: str) -> None:
    rng = random.Random("formats " + kind)
    for _ in range(50):
        secret, line = PLANTS[kind](rng)
        planted = replace(
            CUDA_OOM,
            first_failure=FirstFailure(rank=1, file="job.log", line=1, text=line, traceback=tuple(line.split("\n"))),
            evidence=(Evidence("job.log", 1, line, 1, None, None, "r", "cuda-oom", "root"),),
            reasons=(line,),
            fixes=(Remedy(line, line),),
            facts={"command": line},
        )
        safe = Redactor().apply(planted)
        for shown in (
            text.render_text(safe, width=5000, colour=False),
            text.render_text(safe, width=80, colour=False, context=99),
            render(safe, "json"),
            render(safe, "markdown"),
            render(safe, "slack"),
            render(safe, "html"),
        ):
            assert secret not in shown
            assert json.dumps(secret)[1:-1] not in shown


# What only looks like a secret, and must stand as it is.
HARMLESS = r"""
wandb: ERROR api_key not configured (no-tty). call wandb.login(key=[your_api_key])
wandb: WARNING `resume` will be ignored since W&B syncing is set to `offline`
wandb: git commit 3f786850e387550fdab836ed7e6dc881de23001b
wandb: Run data is saved locally in /home/x/wandb/run-20261120_120103-3q8x1k2z
sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08
md5 d41d8cd98f00b204e9800998ecf8427e  model.safetensors
commit 3f786850e387550fdab836ed7e6dc881de23001b (HEAD -> main)
Segmentation fault at address 0x7f3a1c2b4d5e (nil) ip 00007f3a1c2b4d5e sp 00007ffd3b2a1c90
uuid 550e8400-e29b-41d4-a716-446655440000 GPU-8a5bd7d1-2f1c-4c66-9d1d-0c4a3bd21e7a
node1:1234:5678 [4] NCCL INFO comm 0x55d0c8a1b2c0 rank 3 nranks 16 cudaDev 3 busId 5e000 commId 0x7a6f5e4d3c2b1a09
[rank6]:[E321 02:07:08.41 ProcessGroupNCCL.cpp:607] [Rank 6] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=62)
RuntimeError: mat1 and mat2 shapes cannot be multiplied (8192x4096 and 5120x4096)
import hf_transfer; from hf_config import hf_hub_download; hf_checkpoint_conversion_utilities_for_llama
hf_config.json hf_transfer==0.1.8 hf_LlamaForCausalLM HF_HUB_ENABLE_HF_TRANSFER=1
pip install sk-learn sk-learn-contrib; task-12345678901234567890abcd disk-backed-tensor-storage-2
pad_token: <pad> eos_token='</s>' bos_token: "<|begin_of_text|>" unk_token=None image_token="<image12>"
eos_token: endoftext50256 pad_token='PAD_1234'
num_tokens: 4096 max_token=128 tokens_per_sec: 18234.5 tokens: 1234567 token_ids=[1, 2, 3] tokenizer: Qwen2Tokenizer
tokenizer_class=LlamaTokenizerFast token_type_ids: tensor consumed_tokens = 1048576000 token: 151643
use_auth_token=True token=None api_key: null password=None secret: str api_key=os.environ["X_API_KEY"]
token = self.config.token; login(token=args.hf_token) token=get_token(path) api_key=settings.api_key
HF_TOKEN=$HF_TOKEN export NGC_API_KEY=${NGC_API_KEY} TOKEN=<your token> WANDB_API_KEY=******** HF_TOKEN=xxxxxxxx
KeyError: 'token' ValueError: invalid token: unexpected end of input password: authentication failed
slurm credential: Invalid job credential; Basic configuration is missing; Bearer token authentication failed
srun: error: Unable to create step for job 991: Invalid Trackable RESource (TRES) specification
  File "/opt/conda/lib/python3.11/site-packages/torch/nn/modules/module.py", line 1751, in _call_impl
    scores = q@k.transpose(-2, -1) / math.sqrt(d); y = x@self.w.mT; z = a@b.T
memcpy@GLIBC_2.14 libfoo.so@LIBFOO_1.0 nvcr.io/nvidia/pytorch@sha256:abc git@github.com:org/repo.git numpy@1.26.4
@torch.no_grad() @property email-validator==2.0 loss@train.py run@main.sh
https://huggingface.co/meta-llama/Llama-3.1-8B/resolve/main/config.json?download=true
https://pytorch.org/docs/stable/notes/cuda.html#environment-variables http://10.0.0.1:29500/ tcp://node1:29500
store key: default_pg/0//cuda//timeout_dump cache_key=9f86d081884c7d659a2f primary_key=id12345678
ncclUniqueId 0x1f2e3d4c key=[0, 1, 2] monkey=banana123 keyboard: qwerty12
Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 79.11 GiB of which 1.03 GiB is free.
iteration 1200/ 5000 | consumed samples: 307200 | elapsed time per iteration (ms): 1234.5 | lm loss: 2.345678E+00
passed: 33 failed: 2 bypass=enabled1 compass: north12 pass: 3 pwd=/home/x/run PWD=/scratch/x
[W socket.cpp:436] [c10d] The server socket has failed to bind to [::]:29500 (errno: 98 - Address already in use).
torch.distributed.DistBackendError: NCCL error in: ../torch/csrc/distributed/c10d/ProcessGroupNCCL.cpp:1970
eyJust a word. eyJabc.def model.eyJ asia-northeast1 ASIAN_LANGUAGES AKIAx
""".strip().splitlines()


@pytest.mark.parametrize("line", HARMLESS)
def test_no_false_mask(line: str) -> None:
    assert redact(line) == line


def test_no_false_mask_on_the_fixtures() -> None:
    """Fixtures hold no secrets but planted ones, which are named `secret...` or `redact...`."""
    logs = [
        path
        for path in (Path(__file__).parent / "fixtures").rglob("*")
        if path.suffix in {".log", ".out", ".err", ".txt"} and not path.parts[-2].startswith(("secret", "redact"))
    ]
    for path in logs:
        for line in path.read_bytes()[:4_000_000].decode("utf-8", "replace").splitlines():
            assert redact(line) == disarm(line), path


@pytest.mark.parametrize("mode", ["off", "default", "strict"])
def test_terminal_control_is_always_disarmed(mode: Mode) -> None:
    bad = "\x1b[31mred\x1b[0m \x1b]0;title\x07x \x9b2J a\x00\x00b \u202eabc\u2066 \x07 \ud800 tab\there \x1b]8;;http://x\x1b\\l"
    shown = redact(bad, mode)
    assert shown == "red x  a\ufffdb \ufffdabc\ufffd \ufffd \ufffd tab\there l"


@given(st.text(st.one_of(st.sampled_from("\x1b[]m;\x07\x9b\r\n\t\u202e@:/="), st.characters())))
def test_disarm_leaves_nothing_to_steer_with(said: str) -> None:
    shown = disarm(said)
    assert not any(
        (ord(c) < 32 and c not in "\t\n") or 0x7F <= ord(c) < 0xA0 or 0x202A <= ord(c) <= 0x202E for c in shown
    )
    assert disarm(shown) == shown
    shown.encode()


def test_colour_inside_a_secret_does_not_save_it() -> None:
    secret = "hf" + "_" + "aBcDeFgHiJ" * 4
    assert redact(secret[:9] + "\x1b[1m" + secret[9:]) == "[redacted hf token]"


def test_off_masks_nothing() -> None:
    assert redact("password=hunter2hunter2", "off") == "password=hunter2hunter2"
    assert redact("password=hunter2hunter2") == "password=[redacted secret]"


def test_a_key_over_several_lines_of_a_traceback() -> None:
    lines = (
        "before",
        "-----BEGIN PRIVATE KEY-----",
        "A" * 64,
        "bB/+" * 16,
        "-----END PRIVATE KEY-----",
        "after",
    )
    safe = Redactor().apply(replace(CUDA_OOM, first_failure=FirstFailure(traceback=lines)))
    assert safe.first_failure is not None
    assert safe.first_failure.traceback == ("before", "[redacted private key]", "after")


def test_nothing_is_rebuilt_for_ordinary_text() -> None:
    assert Redactor().apply(SILENT) is SILENT
    assert Redactor("off").apply(CUDA_OOM) is CUDA_OOM


OWN = "Tell storage@hpc.example.org that {volume} is gone; the password is shown there."


def test_an_address_that_a_rule_gives_is_shown_and_any_other_masked() -> None:
    filled = "Tell storage@hpc.example.org that vol-of-ann@hpc.example.org is gone"
    assert redact(filled, own=OWN) == "Tell storage@hpc.example.org that [redacted e-mail] is gone"
    assert redact(filled) == "Tell [redacted e-mail] that [redacted e-mail] is gone"


def test_a_secret_that_is_a_word_of_a_rule_is_masked() -> None:
    assert "shown" not in redact("DB_PASSWORD=shown", own=OWN)


def test_a_site_s_fix_keeps_its_contact(tmp_path: Path) -> None:
    (tmp_path / "lost-vol.yaml").write_text(LOST_VOLUME)
    found = diagnose("loader of ann@lab.example.org: tape volume vol8 is gone\n", rules=[tmp_path])
    assert [fix.do for fix in found.fixes] == ["Tell storage@hpc.example.org that vol8 is gone."]
    assert "ann@lab" not in found.to_markdown()


LOST_VOLUME = r"""
cause: site/lost-vol
title: lost a volume
role: root
exit_classes: [python-error]
explains: [peer-lost]
retry: elsewhere
summary: A volume is gone.
rules:
  - id: site/lost-vol/loader
    source: our loader
    literals: ['tape volume']
    regex: 'tape volume (?P<volume>\w+) is gone'
    examples: {match: ['loader: tape volume vol8 is gone'], no_match: ['tape volume is back']}
fixes:
  - do: 'Tell storage@hpc.example.org that {volume} is gone.'
"""

STRICT = (
    "/gpfs/site/home/jdoe/run/train.py USER=jdoe on gpu-0231.example.internal (10.20.30.40) and fe80::1ff:fe23:4567:890a; "
    "slurmstepd-tucana: error: *** JOB 12 ON tucana CANCELLED; tucana:1:2 [0] NCCL; jdoe at 10.20.30.40; 127.0.0.1 [::]:29500"
)  # fmt: skip


def test_strict_gives_false_names_throughout() -> None:
    shown = redact(STRICT, "strict")
    for name in ("jdoe", "gpfs", "gpu-0231", "tucana", "10.20.30.40", "fe80"):
        assert name not in shown
    assert shown.startswith("/home/user-1/run/train.py USER=user-1 on host-")
    assert shown.count("ip-1") == 2
    assert "127.0.0.1 [::]:29500" in shown
    assert redact(STRICT) == STRICT


def test_strict_is_consistent_over_a_diagnosis() -> None:
    diagnosis = replace(
        CUDA_OOM,
        first_failure=FirstFailure(rank=1, node="tucana", file="/home/jdoe/job.log", line=3, text="jdoe on tucana"),
        reasons=("tucana (10.1.2.3) said so",),
    )
    safe = Redactor("strict").apply(diagnosis)
    assert safe.first_failure is not None
    host = safe.first_failure.node
    assert host is not None
    assert host.startswith("host-")
    assert safe.first_failure.file == "/home/user-1/job.log"
    assert safe.first_failure.text == f"user-1 on {host}"
    assert safe.reasons == (f"{host} (ip-1) said so",)
    assert safe.cause == CUDA_OOM.cause


@pytest.mark.parametrize(
    "line",
    [
        "c10::Error at::native::add std::abc::def 12:01:03 0000:3b:00.0 a::b",
        "driver 535.104.12 torch==2.5.1.0 version=1.2.3.4 libcudnn.so.8.9.2.26",
        "tensor[0] default[3] ranks[0,1] layer.3.weight",
    ],
)
def test_strict_keeps_what_is_no_name(line: str) -> None:
    assert redact(line, "strict") == line


@given(st.text(max_size=200))
def test_any_text_in_any_mode(said: str) -> None:
    modes: tuple[Mode, ...] = ("off", "default", "strict")
    for mode in modes:
        once = redact(said, mode)
        assert isinstance(once, str)


HOSTILE = [
    "a" * 200_000,
    "a@" * 50_000,
    "eyJ" * 60_000,
    "hf_" * 60_000,
    "token=" * 30_000,
    "://" * 60_000,
    "-----BEGIN PRIVATE KEY-----" * 5_000,
    "/home" * 40_000,
    "1." * 90_000,
    "password: " * 20_000,
    "wandb key " * 20_000,
    "\x1b[" * 90_000,
    "a:" * 90_000,
    "--a-" * 40_000,
    "x." * 90_000 + "@",
]


@pytest.mark.parametrize("said", HOSTILE, ids=[text[:10].strip() for text in HOSTILE])
@pytest.mark.parametrize("mode", ["default", "strict"])
def test_every_text_is_read_to_its_end(said: str, mode: Mode) -> None:
    """How much work that is, tests/test_secrets.py counts."""
    assert "hunter2" not in redact(said[:20_000] + "\npassword=hunter2hunter2", mode)


def test_bare() -> None:
    assert Redactor("strict").apply(Diagnosis("unknown")) == Diagnosis("unknown")


# ── end to end ───────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("kind", PLANTS)
def test_no_secret_leaves_a_diagnosis(kind: str) -> None:
    """Planted where the log is quoted: in the error's words, in its traceback, in the last words and beside labels."""
    rng = random.Random("diagnosed " + kind)
    for _ in range(3):
        planted = [PLANTS[kind](rng) for _ in range(4)]
        words = [line.replace("\n", "\\n") for _, line in planted]
        log = (
            f"[rank3]: Traceback (most recent call last):\n[rank3]:   File \"/srv/a.py\", line 3, in main\n[rank3]:     {words[0]}\n"
            f"[rank3]: RuntimeError: boom {words[1]}\nwandb: {words[2]}\nsrun: error: n1: task 3: Exited with exit code 1\n{words[3]}\n"
        )  # fmt: skip
        for found in (diagnose(log), diagnose(f"```\n{log}```\n"), diagnose(log, redact="strict")):
            for shown in (
                text.render_text(found, width=4000, colour=False, context=99, ranks=True),
                text.render_text(found, width=80, colour=True, context=99, ranks=True),
                render(found, "json"),
                render(found, "markdown"),
                render(found, "slack"),
                render(found, "html"),
            ):
                for secret, _ in planted:
                    assert secret not in shown


def test_no_false_mask_in_the_evidence_of_the_fixtures() -> None:
    for case in cases():
        plain, masked = diagnose(case.logs, redact="off"), verdict_of(case.name)
        assert [item.text for item in masked.evidence] == [item.text for item in plain.evidence], case.name


TREES = r"""
/iopsstor/scratch/GROUP/USER/run /capstor/scratch/GROUP/USER /users/USER/x /home/USER/run /home/hpc/GROUP/USER/x /home/ulc/es/USER
/p/project/GROUP/USER/code /p/project1/GROUP/USER /p/home/jusers/USER/juwels /p/scratch/GROUP/USER/x /gpfs/scratch/GROUP/USER /gpfs/projects/bsc99/USER
/gpfswork/rech/GROUP/USER /gpfsdswork/projects/rech/GROUP/USER/x /lustre/fswork/projects/rech/GROUP/USER/x /lustre/fsw/USER/x
/scratch/project_465000000/USER/x /pfs/lustrep1/users/USER /pfs/lustrep1/scratch/project_465000000/USER /leonardo_scratch/large/userexternal/USER
/leonardo_work/GROUP/USER /leonardo/home/userexternal/USER /global/homes/k/USER /global/cscratch1/sd/USER /pscratch/sd/k/USER/x /global/cfs/cdirs/GROUP/USER
/ccs/home/USER /lustre/orion/GROUP/scratch/USER/x /gpfs/alpine/GROUP/scratch/USER /gpfs/alpine/scratch/USER /mnt/beegfs/USER /cluster/home/USER/x
/cluster/scratch/USER /cluster/work/GROUP/USER /rds/project/GROUP/USER /rds/user/USER/hpc-work /rds/general/user/USER/home /WORK/GROUP/USER/x /fsx/USER/x
/data/USER/x /net/scratch/USER /nobackup/USER /project/GROUP/USER /projects/bXXX/USER /work2/01234/USER/frontera /home1/01234/USER /scratch1/01234/USER
/lus/grand/projects/GROUP/USER /eagle/GROUP/USER /dss/dsshome1/lxc01/USER /dss/dssfs02/GROUP/x-dss-0000/USER /private/home/USER /scratch/gpfs/USER
/gpfs/gibbs/project/GROUP/USER /n/home01/USER /storage/home/hcoda1/5/USER /WORK/e01/e01/USER /gs/bs/GROUP/USER /groups/GROUP/USER ~/projects/def-prof/USER
/Users/USER/x /mnt/petrelfs/USER /checkpoint/USER/x ~USER/x file:///gpfs/site/home/USER/x \/home\/USER\/x
"""


@pytest.mark.parametrize("tree", TREES.split())
@pytest.mark.parametrize("name", ["kmueller", "bsc99123", "km42"])
def test_strict_masks_a_person_by_where_the_name_stands_and_then_everywhere(tree: str, name: str) -> None:
    path = tree.replace("USER", name).replace("GROUP", "ab123").replace("WORK", "work")
    shown = redact(f"OSError: [Errno 122] Disk quota exceeded: '{path}' ({name} on x, {name}-backup)", "strict")
    assert name not in shown, shown
    assert "ab123" not in shown, shown
    assert shown.count("user-") >= 3, shown


@pytest.mark.parametrize(
    ("line", "name"),
    [
        ("ssh kmueller@data01", "kmueller data01"),
        ("rsync://data01/x rsync://kmueller@data01/x", "kmueller data01"),
        ("kmueller@data01: Permission denied (publickey).", "kmueller data01"),
        ("on kmueller-ws1", "kmueller-ws1"),
        ("s3://kmueller-bucket/x", "kmueller"),
        ("uid=50123(kmueller) gid=100(users)", "50123 kmueller"),
        ("/run/user/50123/bus", "50123"),
        (r"\\fileserver01\share", "fileserver01"),
        (r"cannot reach \\fileserver01", "fileserver01"),
        ("link 1c:34:da:7f:00:12 is down", "1c:34:da"),
        ("node0097i.juwels went away", "node0097i juwels"),
        ("UserId=kmueller(50123) GroupId=hai(100) Account=hai_x", "kmueller hai_x"),
        ("http://mlserver:8888/lab", "mlserver"),
        ("USER=kmueller ... kmueller_utils.py", "kmueller"),
    ],
)
def test_strict_masks_names_beside_paths(line: str, name: str) -> None:
    shown = redact(line, "strict")
    assert not [one for one in name.split() if one in shown], shown
    assert redact(line) == line


READABLE = r"""
/data/imagenet/train/n01440764/x.jpg: No such file or directory
/p/project/code/train.py
/opt/conda/lib/python3.11/site-packages/torch/utils/data/_utils/worker.py
/usr/lib/python3/dist-packages/x.py /opt/project/x/y.py
/scratch/tmp/x /home/runner/work /work2/data
the root cause is USER=root; user=root
for user input; user: What is this? {"role": "user", "content": "hello"}
loss@train.py numpy@1.26 git@github.com:a/b top@1 mAP@50 q@k.T
Xid (PCI:0000:3b:00): 79 at 12:01:03
https://huggingface.co/meta-llama/Llama-3.1-8B
tcp 127.0.0.1 [::]:29500 localhost:29500
torch.Size([32000, 4096]) layer.3.weight at::native::add
""".strip().splitlines()


@pytest.mark.parametrize("line", READABLE)
def test_strict_keeps_what_is_nobody_s(line: str) -> None:
    assert redact(line, "strict") == line
