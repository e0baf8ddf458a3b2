"""Made-up secrets of 72 kinds, and 34 forms in which logs show them. Prefixes are put together here, so that no scanner takes one for real."""

from __future__ import annotations

import json
import random
import string
from collections.abc import Callable

ALNUM, LOWER, LETTERS, DIGITS = (
    string.ascii_letters + string.digits,
    string.ascii_lowercase,
    string.ascii_letters,
    string.digits,
)
HEX, UPPER, B64, URLSAFE = "0123456789abcdef", string.ascii_uppercase + DIGITS, ALNUM + "+/", ALNUM + "-_"

Make = Callable[[random.Random], str]
Form = Callable[[str, str], str]
"""(name of the key, secret) -> the line."""


def some(rng: random.Random, chars: str, count: int) -> str:
    return "".join(rng.choice(chars) for _ in range(count))


def of(prefix: str, chars: str, count: int, suffix: str = "") -> Make:
    def make(rng: random.Random) -> str:
        made = some(rng, chars, count)
        at = rng.randrange(1, count - 1)
        digit = rng.choice("23456789") if any(char.isdigit() for char in chars) else made[at]
        return prefix + made[:at] + digit + made[at + 1 :] + suffix

    return make


def joined(sign: str, *parts: Make) -> Make:
    return lambda rng: sign.join(part(rng) for part in parts)


UUID = joined("-", *(of("", HEX, count) for count in (8, 4, 4, 4, 12)))
KINDS: dict[str, tuple[str, Make]] = {
    "aws id": ("AWS_ACCESS_KEY_ID", of("AK" + "IA", UPPER, 16)),
    "aws secret": ("AWS_SECRET_ACCESS_KEY", of("", B64, 40)),
    "aws session": ("AWS_SESSION_TOKEN", of("IQoJb3JpZ2lu", B64, 200)),
    "google key": ("GOOGLE_API_KEY", of("AI" + "za", URLSAFE, 35)),
    "google oauth": ("ACCESS_TOKEN", of("ya" + "29.", URLSAFE, 80)),
    "azure storage": ("AZURE_STORAGE_KEY", of("", B64, 86, "==")),
    "azure client": ("AZURE_CLIENT_SECRET", joined("8" + "Q~", of("", ALNUM, 3), of("", ALNUM, 34))),
    "github": ("GH_TOKEN", of("gh" + "p_", ALNUM, 36)),
    "github fine": ("GITHUB_TOKEN", joined("_", of("github" + "_pat_", ALNUM, 22), of("", ALNUM, 59))),
    "github server": ("GITHUB_TOKEN", of("gh" + "s_", ALNUM, 36)),
    "gitlab": ("GITLAB_TOKEN", of("gl" + "pat-", URLSAFE, 20)),
    "hugging face": ("HF_TOKEN", of("hf" + "_", LETTERS, 34)),
    "hugging face organisation": ("HUGGING_FACE_HUB_TOKEN", of("api" + "_org_", LETTERS, 34)),
    "openai": ("OPENAI_API_KEY", of("s" + "k-", ALNUM, 48)),
    "openai project": ("OPENAI_API_KEY", of("s" + "k-proj-", URLSAFE, 120)),
    "anthropic": ("ANTHROPIC_API_KEY", of("s" + "k-ant-api03-", URLSAFE, 93, "AA")),
    "wandb": ("WANDB_API_KEY", of("", HEX, 40)),
    "wandb v1": ("WANDB_API_KEY", of("wandb" + "_v1_", ALNUM, 77)),
    "comet": ("COMET_API_KEY", of("", ALNUM, 25)),
    "neptune": ("NEPTUNE_API_TOKEN", of("eyJ" + "hcGlf", B64, 160, "==")),
    "clearml": ("CLEARML_API_SECRET_KEY", of("", ALNUM, 50)),
    "mlflow": ("MLFLOW_TRACKING_PASSWORD", of("", ALNUM, 14)),
    "langsmith": ("LANGCHAIN_API_KEY", joined("_", of("ls" + "v2_pt_", HEX, 32), of("", HEX, 10))),
    "replicate": ("REPLICATE_API_TOKEN", of("r8" + "_", ALNUM, 37)),
    "cohere": ("CO_API_KEY", of("", ALNUM, 40)),
    "mistral": ("MISTRAL_API_KEY", of("", ALNUM, 32)),
    "groq": ("GROQ_API_KEY", of("gs" + "k_", ALNUM, 52)),
    "slack": ("SLACK_BOT_TOKEN", joined("-", of("xo" + "xb-", DIGITS, 12), of("", DIGITS, 12), of("", ALNUM, 24))),
    "discord": ("DISCORD_TOKEN", joined(".", of("MT", ALNUM, 24), of("", ALNUM, 6), of("", ALNUM, 38))),
    "telegram": ("TELEGRAM_BOT_TOKEN", joined(":", of("1", DIGITS, 9), of("AA", ALNUM, 33))),
    "twilio": ("TWILIO_AUTH_TOKEN", of("", HEX, 32)),
    "sendgrid": ("SENDGRID_API_KEY", joined(".", of("S" + "G.", ALNUM, 22), of("", ALNUM, 43))),
    "mailgun": ("MAILGUN_API_KEY", of("ke" + "y-", HEX, 32)),
    "mailchimp": ("MAILCHIMP_API_KEY", of("", HEX, 32, "-us12")),
    "stripe": ("STRIPE_SECRET_KEY", of("sk" + "_live_", ALNUM, 24)),
    "square": ("SQUARE_ACCESS_TOKEN", of("sq" + "0atp-", ALNUM, 22)),
    "paypal": ("PAYPAL_CLIENT_SECRET", of("", ALNUM, 80)),
    "shopify": ("SHOPIFY_TOKEN", of("shp" + "at_", HEX, 32)),
    "digitalocean": ("DO_TOKEN", of("do" + "p_v1_", HEX, 64)),
    "heroku": ("HEROKU_API_KEY", UUID),
    "linode": ("LINODE_TOKEN", of("", HEX, 64)),
    "fly": ("FLY_API_TOKEN", of("fo" + "1_", ALNUM, 43)),
    "vercel": ("VERCEL_TOKEN", of("", ALNUM, 24)),
    "netlify": ("NETLIFY_AUTH_TOKEN", of("nf" + "p_", ALNUM, 36)),
    "cloudflare": ("CLOUDFLARE_API_TOKEN", of("", ALNUM, 40)),
    "databricks": ("DATABRICKS_TOKEN", of("da" + "pi", HEX, 32)),
    "snowflake": ("SNOWFLAKE_PASSWORD", of("", ALNUM, 16)),
    "datadog": ("DD_API_KEY", of("", HEX, 32)),
    "new relic": ("NEW_RELIC_LICENSE_KEY", of("", HEX, 36, "NR" + "AL")),
    "grafana": ("GRAFANA_TOKEN", joined("_", of("gl" + "sa_", ALNUM, 32), of("", HEX, 8))),
    "sentry": ("SENTRY_AUTH_TOKEN", of("sntr" + "yu_", HEX, 64)),
    "pagerduty": ("PAGERDUTY_API_KEY", of("u+", ALNUM, 18)),
    "okta": ("OKTA_API_TOKEN", of("00", ALNUM, 40)),
    "atlassian": ("JIRA_API_TOKEN", joined("=", of("ATA" + "TT3", ALNUM, 180), of("", UPPER, 8))),
    "artifactory": ("ARTIFACTORY_API_KEY", of("AK" + "Cp", ALNUM, 69)),
    "npm": ("NPM_TOKEN", of("np" + "m_", ALNUM, 36)),
    "pypi": ("TWINE_PASSWORD", of("py" + "pi-AgEIcHlwaS5vcmc", URLSAFE, 130, "x")),
    "rubygems": ("GEM_HOST_API_KEY", of("ruby" + "gems_", HEX, 48)),
    "nuget": ("NUGET_API_KEY", of("oy" + "2", HEX, 43)),
    "docker": ("DOCKER_PASSWORD", of("dck" + "r_pat_", ALNUM, 27)),
    "tailscale": ("TS_AUTHKEY", joined("-", of("tsk" + "ey-auth-", ALNUM, 12), of("", ALNUM, 32))),
    "vault": ("VAULT_TOKEN", of("hv" + "s.", ALNUM, 95)),
    "terraform": ("TF_TOKEN", joined(".atlas" + "v1.", of("", ALNUM, 14), of("", ALNUM, 67))),
    "pulumi": ("PULUMI_ACCESS_TOKEN", of("pu" + "l-", HEX, 40)),
    "doppler": ("DOPPLER_TOKEN", of("dp" + ".pt.", ALNUM, 43)),
    "age": ("SOPS_AGE_KEY", of("AGE-SECRET" + "-KEY-1", UPPER, 58)),
    "jwt": ("SLURM_JWT", joined(".", of("ey" + "J", ALNUM, 18), of("ey" + "J", ALNUM, 30), of("", ALNUM, 43))),
    "password of letters": ("DB_PASSWORD", of("", LOWER, 11)),
    "password with a sign": ("db_password", lambda rng: some(rng, ALNUM, 5) + rng.choice("!#+.^") + some(rng, ALNUM, 5)),
    "kaggle": ("KAGGLE_KEY", of("", HEX, 32)),
    "ngc": ("NGC_CLI_API_KEY", of("nv" + "api-", ALNUM, 64)),
    "minio": ("MINIO_SECRET_KEY", of("", ALNUM, 24)),
    "uuid": ("CLIENT_SECRET", UUID),
}  # fmt: skip


def camel(name: str) -> str:
    first, *rest = name.lower().split("_")
    return first + "".join(word.title() for word in rest)


def flag(name: str) -> str:
    return "--" + name.lower().replace("_", "-")


def wrapped(name: str, secret: str) -> str:
    line = f"{'training on node07 with ' + name + '=':>64}{secret}"
    return line[:80] + ("\n" + line[80:] if len(line) > 88 else line[80:])


FORMS: dict[str, Form] = {
    "environment": lambda n, s: f"{n}={s}",
    "export": lambda n, s: f"+ export {n}='{s}'",
    "os.environ": lambda n, s: f"    os.environ['{n}'] = '{s}'",
    "yaml": lambda n, s: f"  {n.lower()}: {s}",
    "json": lambda n, s: json.dumps({"a": 1, n.lower(): s, "b": "c"}),
    "camel case": lambda n, s: json.dumps({camel(n): s}),
    "escaped json": lambda n, s: json.dumps({"msg": json.dumps({n.lower(): s})}),
    "triple json": lambda n, s: json.dumps({"m": json.dumps({"msg": json.dumps({n.lower(): s, "x": 1})})}),
    "repr": lambda n, s: repr({n.lower(): s, "lr": 0.1}),
    "bytes": lambda n, s: repr({n.lower().encode(): s.encode()}),
    "argv": lambda n, s: f"CalledProcessError: Command '{['torchrun', 't.py', flag(n), s, '--lr', '0.1']}' returned non-zero exit status 1.",
    "argv with =": lambda n, s: f"Command '{['torchrun', f'{flag(n)}={s}']}' returned non-zero exit status 1.",
    "argv as json": lambda n, s: json.dumps(["torchrun", "t.py", "--" + n.lower(), s]),
    "namespace": lambda n, s: f"Namespace(batch=4, {n.lower()}='{s}', lr=0.1)",
    "call": lambda n, s: f'    main({n.lower()}="{s}")',
    "aligned": lambda n, s: f"{n.lower():<30} = {s}",
    "dots": lambda n, s: f"  {n.lower()} {'.' * (40 - len(n))} {s}",
    "tab": lambda n, s: f"{n.lower()}\t{s}",
    "table": lambda n, s: f"| {n.lower()} | {s} |",
    "arrow": lambda n, s: f"{n.lower()} -> {s}",
    "fat arrow": lambda n, s: f"'{n.lower()}' => '{s}',",
    "option": lambda n, s: f"srun python t.py {flag(n)} {s} --lr 0.1",
    "option with =": lambda n, s: f"srun python t.py {flag(n)}={s} --lr 0.1",
    "element": lambda n, s: f"<{n.lower()}>{s}</{n.lower()}>",
    "attributes": lambda n, s: f'<add key="{n.lower()}" value="{s}"/>',
    "rank label": lambda n, s: f"[rank3]:[default0]: {n.lower()}={s}",
    "full width": lambda n, s: f"{n.lower()}\uff1a{s}",
    "soft hyphen": lambda n, s: f"{n}={s[:7]}\u00ad{s[7:]}",
    "zero width": lambda n, s: f"{n}={s[:7]}\u200b{s[7:]}",
    "backspace": lambda n, s: f"{n}={s[:7]}\b{s[7:]}",
    "colour": lambda n, s: f"{n}=\x1b[1m{s[:6]}\x1b[0m{s[6:]}",
    "html": lambda n, s: f"{n.lower()}=&quot;{s}&quot;",
    "wrapped": wrapped,
    "user in a url": lambda n, s: f"https://kim:{''.join(c if c in URLSAFE + '.~!' else '/' for c in s)}@example.org/a.git",
}  # fmt: skip


def shown_parts(form: str, secret: str) -> list[str]:
    """What of a secret must not be shown: all of it, and more than a third of it in one piece."""
    if form == "user in a url":
        secret = "".join(c if c in URLSAFE + ".~!" else "/" for c in secret)
    third = len(secret) // 3
    return [secret] if len(secret) < 12 else [secret[: 2 * third], secret[third:], secret[-2 * third :]]


def readable(shown: str) -> str:
    """A report's text as a reader puts it together again: without what divides a word."""
    return "".join(char for char in shown if char not in "\u00ad\u200b\ufffd\n")
