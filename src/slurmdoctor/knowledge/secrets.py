"""Gives the kinds of secrets that come with the program, as rules/secrets.yaml describes them."""

from __future__ import annotations

from functools import cache

from slurmdoctor.knowledge.loading import loaded
from slurmdoctor.knowledge.paths import builtin
from slurmdoctor.model import SecretKind


@cache
def secret_kinds() -> tuple[SecretKind, ...]:
    """All of them, the most telling first; where rules are loaded anyway, `Knowledge.secrets` has a site's own too."""
    return loaded((builtin(),)).secrets
