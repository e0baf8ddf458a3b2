"""The numbers by which survival, stalls, silence and last words are judged: one table.

tests/test_limits.py holds a log or a timeline on each side of every one.
"""

from __future__ import annotations

from slurmdoctor.model.frozen import Frozen


class Limits(Frozen):
    """Bytes, seconds, ranks and shares at which a judgement turns."""

    # ── survival: did the job go on after an error? ──
    held_back: int = 8192
    """Bytes that a program without a terminal holds back before it prints them: they may come after the traceback that ended it."""
    nothing_after_cut: int = 200
    """Bytes after a cut in which no attempt can have printed anything."""
    attempt_begins: int = 1024
    """Bytes that a new attempt may take to begin: with no step and no success in them, it has shown nothing."""
    last_try: int = 2048
    """Bytes above an exit within which a survived hint may still be why it failed: nobody went on after the last try."""
    lines_printed: int = 6
    """Different lines of its writer below an error from which it may not have been what ended it;"""
    lines_excused: int = 2
    """the same where the lines around it show that it was caught: then it was not;"""
    lines_before_another: int = 8
    """and between two errors, which show that the first one did not end the run that the second one ended."""
    rising_steps: int = 5
    """Numbers that rise behind the same words below an error, which show that its writer worked on;"""
    many_rising_steps: int = 24
    """so many, or"""
    long_work: float = 600.0
    """so many seconds of them, show that it ended nothing."""
    steps_of_others: int = 4
    """Steps of anybody below an error of a rank that show that it was survived,"""
    steps_of_any: int = 2
    """and below one of nobody in particular."""
    lines_after_tool: int = 3
    """Lines of other programs that show that a script went on after a small tool,"""
    lines_after_command: int = 6
    """or after a command that may be its program;"""
    lines_elsewhere: int = 6
    """in another file of the job so many times more."""
    retry_lines: int = 6
    """Lines of its writer after an error within which `attempt 2/5 succeeded` or `PASSED` is about it."""
    level_within: int = 24
    """Characters within which a line without a label shows its level."""
    one_incident_bytes: int = 2048
    """Bytes between two events of one writer that belong together;"""
    one_incident_seconds: float = 5.0
    """or seconds."""

    # ── stalls: did the job stand still? ──
    stall: float = 300.0
    """Seconds without a step below which nobody calls it a stall, however fast the steps were."""
    stall_of_unknown_pace: float = 900.0
    """The same where only one step is known, and so no usual pause; and before the first one."""
    stall_share: float = 0.25
    """The same as a share of the time that the job ran."""
    pauses_longest: float = 3.0
    """How many times the longest pause between two steps a stall lasts,"""
    pauses_usual: float = 10.0
    """and how many times the usual one."""
    steps_for_a_pace: int = 4
    """Steps that show how long one takes where it is not known how long the job ran;"""
    stall_of_few_steps: float = 3 * 3600.0
    """with fewer, seconds without one below which nobody calls it a stall."""
    few_words: int = 4096
    """Bytes in which no step can have been printed: after a loop began, or between a loaded checkpoint and the end."""
    other_clock: float = 60.0
    """Seconds by which a time may lie on the wrong side of another before its clock is taken for another one."""
    zone: float = 1800.0
    """Seconds of which time zones are multiples apart,"""
    farthest_zone: float = 14 * 3600.0
    """up to this."""
    longest_job: float = 30 * 86400.0
    """Seconds from a program's finish to the job's end that can be one job's."""
    work_least: float = 0.8
    """Share of a timeout that work took which kept the others waiting, at least:"""
    work_most: float = 1.5
    """and at most: it began a little after, or before, the wait."""
    overdue: float = 2.0
    """Times the limit after which a watchdog's report is late."""

    # ── what no rule knows ──
    likely: float = 0.5
    """Probability from which the classifier's cause is named where no rule names one,"""
    likely_nearer: float = 0.8
    """from which it is named in place of a rule's general one,"""
    likely_exception: float = 0.9
    """and in place of a traceback's."""
    decisive: float = 2.8
    """How decisive a log's last words must read, as a logarithm of odds, to show that the job failed, where they are a nearer cause's, too;"""
    called_error: float = 2.0
    """and where they call themselves an error."""

    # ── silence: who did not come? ──
    few: int = 4
    """At most one in so many ranks may be missing, silent, or at another place than the others: else the log is cut."""
    minority: int = 3
    """At most one in so many ranks may be behind the others, or ahead of them."""
    waiting_of_unknown: int = 3
    """Ranks that must have waited where the size of their group is not known: fewer may be a part of any log."""
    waiting_of_a_node: int = 7
    """Ranks that waited, of a job whose size is not known: so many leave out one rank of a usual node."""
    works_queued: int = 16
    """Works behind the one that hangs: so many show that the rank's program went on."""
    one_group: int = 4096
    """Numbers of one group stand nearer to each other: a GPU's queue holds no more works."""
    unheard: float = 0.5
    """Share of the ranks that may not have joined; of more the log does not hold what they printed."""
    still_there: float = 60.0
    """Seconds after the wait's end from which what rank 0 prints shows that it was still there."""
    step_reported: float = 0.75
    """Share of a step's tasks of which Slurm tells an end when it tells of all."""
    at_once: float = 10.0
    """Seconds within which ranks that meet one mistake of the program fail."""


LIMITS = Limits()
