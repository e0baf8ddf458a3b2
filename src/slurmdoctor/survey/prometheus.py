"""The answers as metrics for node_exporter's textfile collector. Labels are few by nature: no job ids, users only where asked for."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from slurmdoctor.survey.answers import Answers, Cost

Labels = Mapping[str, str]
PREFIX = "slurmdoctor_survey"
_HOUR = 3600


def metrics(answers: Answers, failures: Iterable[tuple[Labels, Cost]], users: bool) -> str:
    """The text of all metrics; `failures` are the costs by cluster, partition and cause."""
    failures = list(failures)
    outcomes = ("failed", "healthy", "undecided", "errors", "not_asked")
    found = [
        _metric("jobs", "gauge", "Jobs of the survey by outcome.", ((({"outcome": name}), getattr(answers, name)) for name in outcomes)),
        _metric("failures_total", "counter", "Failed jobs by cause.", ((labels, cost.jobs) for labels, cost in failures)),
        _metric("gpu_seconds_lost", "gauge", "GPU seconds lost by failed jobs, where they are known.", ((labels, _HOUR * cost.gpu_hours_lost) for labels, cost in failures if cost.with_hours)),
        _metric("gpu_seconds", "gauge", "GPU seconds of all jobs, where they are known.", [({}, _HOUR * answers.gpu_hours)] if answers.with_hours else []),
        _metric("jobs_with_gpu_seconds", "gauge", "Jobs whose GPU seconds are known.", [({}, answers.with_hours)]),
        _metric("suspect_nodes", "gauge", "Nodes that fail more than chance explains.", [({}, len(answers.nodes.suspects))] if answers.nodes.tested else []),
        _metric("repeated_jobs", "gauge", "Jobs that died of the cause that the run before died of.", [({}, answers.repeated_jobs)]),
        _metric("unknown_failures", "gauge", "Failed jobs whose cause is not known.", [({}, answers.unknown.jobs)]),
    ]  # fmt: skip
    if answers.sizes:
        sizes = [({"gpus": f"{one.smallest}-{one.largest or ''}"}, one) for one in answers.sizes]
        found += [
            _metric("run_seconds", "gauge", "Seconds that jobs ran, by their GPUs.", ((labels, _HOUR * one.hours) for labels, one in sizes)),
            _metric("size_failures", "gauge", "Failed jobs by their GPUs, without those that Slurm or a person ended.", ((labels, one.failures) for labels, one in sizes)),
        ]  # fmt: skip
    if users:
        costs = [({"user": one.what}, one) for one in answers.users]
        found += [
            _metric("user_jobs", "gauge", "Jobs by user: those users whose failures cost most.", ((labels, one.of) for labels, one in costs)),
            _metric("user_failures", "gauge", "Failed jobs by user.", ((labels, one.jobs) for labels, one in costs)),
            _metric("user_gpu_seconds_lost", "gauge", "GPU seconds lost by user, where they are known.", ((labels, _HOUR * one.gpu_hours_lost) for labels, one in costs if one.with_hours)),
        ]  # fmt: skip
    return "".join(found)


def _metric(name: str, kind: str, meaning: str, samples: Iterable[tuple[Labels, float]]) -> str:
    """Nothing of what is not known: neither a sample nor a head."""
    lines = [f"# HELP {PREFIX}_{name} {meaning}", f"# TYPE {PREFIX}_{name} {kind}"]
    for labels, value in samples:
        shown = ",".join(f'{label}="{_escaped(text)}"' for label, text in labels.items() if text)
        lines.append(f"{PREFIX}_{name}{{{shown}}} {value:.10g}" if shown else f"{PREFIX}_{name} {value:.10g}")
    return "\n".join(lines) + "\n" if len(lines) > 2 else ""


def _escaped(text: str) -> str:
    """A label's value: backslash, quote and line end are escaped, other controls left out."""
    text = "".join(char for char in text if char == "\n" or char.isprintable())
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
