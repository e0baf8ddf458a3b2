"""Checks that the placeholders and conditions of fixes and verify lines name captures or facts that exist."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import regex

from slurmdoctor.knowledge.expressions import names_of, placeholders
from slurmdoctor.knowledge.problems import Place, Problems, did_you_mean
from slurmdoctor.knowledge.rulefile import RuleFile
from slurmdoctor.model import Knowledge
from slurmdoctor.model.causes import NOT_STOPPED

_READ = "rank local_rank node nodes world_size launcher framework last_step attempts silent_ranks late_ranks suspects untold untold_node node_local traceback_seen memory_before_gib memory_elsewhere save_open last_step_at layouts layout_fits layout_lacks task_failed odd_ranks all_entered"
_TOLD = "stands_in exit_code failed_nodes frames stack_function stack_place restarts gained stalled_since busy busy_with busy_limit_min"
_MEMORY = "memory memory_gib memory_of_gib memory_step peak_gib other_peak_gib peak_rank phase exclude reach memory_trend memory_gpu memory_min memory_from_gib memory_to_gib"
_RUN = "no_step idle silent silent_since elapsed_h begins_at came_to checkpoint checkpoint_step checkpoint_time save_s trained spared by_owner"
_WAITED = "failed reach exclude checks saves_in bad_peer socket_nodes rank0_busy far_ranks far_nodes home_node"
# by Slurm's record (slurm/attest.py) and by the batch script (script/sharpen.py)
_RECORDED = "signal_given job_id state ended needed_min idle_min time_limit_min elapsed_min cancelled_by req_mem_gib max_rss_gib num_tasks"
_SCRIPT = "tasks_per_node gpus_per_node nproc mem_gib time_min recompute mem_all unlimited port_of_job"
FACTS = set(f"{_READ} {_TOLD} {_RUN} {_MEMORY} {_WAITED} {_RECORDED} {_SCRIPT}".split())
"""Those that slurmdoctor finds without a rule; facts.yaml adds its own."""
SPECIAL = {"rule", "seen"}
INFERRED = {NOT_STOPPED}
"""Rules that no line satisfies: inference names them."""
VALUES = {
    "launcher": {"srun", "torchrun", "accelerate", "deepspeed", "lightning", "submitit", "ray", "mpi"},
    "framework": {"megatron", "nemo", "megatron-bridge", "automodel", "deepspeed", "accelerate", "lightning"}
    | {"torchtitan", "vllm", "jax"},
}
_RAISED = (
    "at raised_at package code checked said missing_key of_none owner attribute none_used none_iterator callee "
    "unknown_argument missing_arguments unset_name unpicklable config_key exception message reach"
)
FACTS |= set(_RAISED.split())
_PLACED = "only_nodes on_all_nodes other_copy script_dir frame_file set_NEMO_HOME local_NEMO_HOME"
FACTS |= set(_PLACED.split())
_NAMES = "name a group of this cause's regexes, or a fact of docs/rules.md"


def check(file: RuleFile, knowledge: Knowledge, problems: Problems) -> None:
    if file.cause is None:
        return
    cause = knowledge.causes.get(file.cause_id or "")
    rules = cause.rules if cause else ()
    own = (rule for rule, _ in file.rules)  # also where the file could not be put among the causes
    captures = {name for rule in (*rules, *own) for name in regex.compile(rule.regex).groupindex}
    known = captures | FACTS | fact_names(knowledge) | {one.id for one in (cause.let if cause else ())}
    for at, one in enumerate(file.cause["let"]):
        for number, part in enumerate(one.parts):
            _template(part, file.tree.at("let", at, "parts", number), known, problems)
        wanted = {name for text in (one.value, *one.when) if text for name in names_of(text)}
        for name in sorted(wanted - known - SPECIAL):
            problems.add(file.tree.at("let", at), f"no rule or fact gives `{name}`", did_you_mean(name, known, _NAMES))
    for at, text in enumerate(file.cause["verify"]):
        _template(text, file.tree.at("verify", at), known, problems)
    for at, fix in enumerate(file.cause["fixes"]):
        _template(fix.do, file.tree.at("fixes", at, "do"), known, problems)
        _template(fix.why or "", file.tree.at("fixes", at, "why"), known, problems)
        named = {rule.id for rule in (*rules, *knowledge.rules) if rule.cause == file.cause_id} | INFERRED
        _when(fix.when, ("fixes", at), "the fix is never offered", file, known, named, knowledge, problems)
    for at, (rule, _) in enumerate(file.rules):
        place = ("rules", at)
        _when(rule.when, place, "the rule never counts", file, known, set(), knowledge, problems)


def fact_names(knowledge: Knowledge) -> set[str]:
    """What facts.yaml can find: a group is a fact of its name; the group `value`, or a constant, one of the entry's."""
    names: set[str] = set()
    for signal in knowledge.signals:
        if signal.kind == "fact":
            groups = set(regex.compile(signal.regex).groupindex)
            own = {signal.id.partition("/")[0]} if signal.value is not None or "value" in groups else set()
            names |= own | (groups - {"value"})
    return names


def _template(text: str, place: Place, known: set[str], problems: Problems) -> None:
    try:
        needed = placeholders(text)
    except ValueError as error:
        problems.add(place, str(error), "write {name} or {name / other}; {{ and }} stand for single braces")
        return
    for name in sorted(needed - known):
        mend = did_you_mean(name, known, _NAMES)
        problems.add(place, f"no rule or fact gives `{{{name}}}`", mend)


def _when(
    when: Mapping[str, Any],
    at: tuple[str | int, ...],
    never: str,
    file: RuleFile,
    known: set[str],
    rules: set[str],
    knowledge: Knowledge,
    problems: Problems,
) -> None:
    for name, want in when.items():
        place = file.tree.at(*at, "when", name)
        unknown = sorted(names_of(name) - known - SPECIAL)
        for word in unknown:
            mend = did_you_mean(word, known | SPECIAL, _NAMES)
            problems.add(place, f"no rule or fact gives `{word}`: {never}", mend)
        if unknown:
            continue
        allowed = {"rule": rules, "seen": set(knowledge.causes), **VALUES}.get(name)
        for one in want if isinstance(want, tuple) else (want,):
            if allowed and not isinstance(one, bool) and one not in allowed:
                mend = did_you_mean(str(one), allowed, f"known: {', '.join(sorted(allowed)[:12])}")
                problems.add(place, f"`{name}` is never `{one}`: {never}", mend)
