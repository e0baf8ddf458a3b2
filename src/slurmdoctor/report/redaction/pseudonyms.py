"""`--redact strict`: replaces users, home paths, addresses and hosts by `user-1`, `ip-2`, `host-3`, the same ones throughout."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterable
from typing import TYPE_CHECKING

from slurmdoctor.search.compiled import compiled

if TYPE_CHECKING:
    import regex

_NAME = r"[A-Za-z_][\w.-]{1,40}"
_HOST = r"[A-Za-z][A-Za-z0-9-]{0,62}(?:\.[A-Za-z0-9-]{1,63}){0,6}"
_HOME = r"(?:/[\w.+-]{1,64}){0,4}?/(?:home\d{0,2}|Users|users|scratch\d{0,2}|fsx)/(?P<user>" + _NAME + r"(?<![.-]))"
_USER = r"\b(?:USER|LOGNAME|USERNAME|SLURM_JOB_USER|SUDO_USER)['\"]?\s{0,2}[=:]\s{0,2}['\"]?(?P<user>" + _NAME + ")"

# Where programs print the name of a host. What follows the name keeps a device or a module out.
_HOSTS = (
    rf"slurmstepd-(?P<host>{_HOST}):",
    rf"srun: error: (?P<host>{_HOST}): task",
    rf"\bNode failure on (?P<host>{_HOST}(?:\[[\d,-]{{1,200}}\])?)",
    rf"\bON (?P<host>{_HOST}) (?:CANCELLED|FAILED|\*\*\*)",
    rf"(?P<host>{_HOST}):\d{{1,8}}:\d{{1,8}} \[\d{{1,2}}\] ",
    rf"\b(?:MASTER_ADDR|master_addr|SLURMD_NODENAME|HOSTNAME|hostname|host|node)['\"]?\s{{0,6}}[=:]\s{{0,2}}['\"]?(?P<host>{_HOST})",
    rf"\btcp://(?P<host>{_HOST}):\d",
    rf"\brdzv[_-]endpoint[= ](?P<host>{_HOST}):\d",
)
# Names that clusters give their nodes, also as a Slurm list: gpu-[02-05].
_NODE = (
    r"(?<![\w./-])(?:gpu|node|nid|dgx|hgx|cn|compute|login|worker|ip|h100|h200|a100|b200|gb200|gh200)"
    r"(?:-[a-z]{1,12})?(?:-?\d{1,8}){1,5}(?:\.[a-z0-9-]{1,63}){0,6}(?![\w-])"
    r"|(?<![\w./-])(?:gpu|node|nid|dgx|hgx|cn|compute|worker)[a-z0-9-]{0,20}\[\d[\d,-]{0,200}\]"
)
_INNER = (
    r"(?<![\w.-])[A-Za-z0-9][\w-]{0,62}(?:\.[\w-]{1,63}){0,5}"
    r"\.(?:local|internal|cluster|lan|intra|hpc)(?![\w-])"
)
_V4 = r"(?<![\w.=-])(?:\d{1,3}\.){3}\d{1,3}(?![\w.])"
_V6 = r"(?<![\w:.])(?:[0-9A-Fa-f]{0,4}:){2,7}[0-9A-Fa-f]{0,4}(?![\w:.])"
_NO_HOST = frozenset(
    {"localhost", "none", "null", "unknown", "error", "auto", "gpu", "node", "host", "master", "worker"}
)


class Pseudonyms:
    """Gives every name its number in order of appearance."""

    given = r"(?:host|ip|user)-\d+"
    """What a pseudonym looks like: it gets no other one."""

    def __init__(self) -> None:
        self._given: dict[str, dict[str, str]] = {"user": {}, "host": {}, "ip": {}}

    def new(self, kind: str, name: str) -> str:
        """The pseudonym of a name that has none."""
        return f"{kind}-{len(self._given[kind]) + 1}"

    def know(self, hosts: Iterable[str]) -> None:
        """Names that are hosts for certain."""
        for host in hosts:
            self._host(host)

    def learn(self, text: str) -> None:
        """Note the users and hosts that this text marks as such."""
        for pattern in (_HOME, _USER):
            for match in compiled(pattern).finditer(text):
                self._name("user", match["user"])
        for pattern in _HOSTS:
            for match in compiled(pattern).finditer(text):
                self._host(match["host"])
        for pattern in (_NODE, _INNER):
            for match in compiled(pattern).finditer(text):
                self._host(match[0])

    def mask(self, text: str) -> str:
        """The text with every learnt name and every address replaced."""
        text = compiled(_HOME).sub(lambda match: "/home/" + self._name("user", match["user"]), text)
        text = compiled(_V4).sub(self._address, text)
        text = compiled(_V6).sub(self._address, text)
        for given in (self._given["host"], self._given["user"]):
            for name in sorted(given, key=len, reverse=True):
                if name in text:
                    text = re.sub(rf"(?:(?<![\w-])|(?<=slurmstepd-)){re.escape(name)}(?![\w-])", given[name], text)
        return text

    def _host(self, host: str) -> None:
        if len(host) > 1 and host.lower() not in _NO_HOST and not compiled(self.given).fullmatch(host):
            self._name("host", host)

    def _address(self, match: regex.Match[str]) -> str:
        try:
            address = ipaddress.ip_address(match[0])
        except ValueError:
            return match[0]
        if address.is_loopback or address.is_unspecified or (address.version == 6 and match[0].count(":") < 3):
            return match[0]
        return self._name("ip", match[0])

    def _name(self, kind: str, name: str) -> str:
        given = self._given[kind]
        if compiled(self.given).fullmatch(name):
            return name
        if name not in given:
            given[name] = self.new(kind, name)
        return given[name]
