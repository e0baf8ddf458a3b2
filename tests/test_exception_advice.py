"""What the advice on an uncaught exception says: this exception, its place in the user's own code, and which ranks raised it."""

from __future__ import annotations

import pytest

from slurmdoctor import Diagnosis, diagnose

OWN = 'File "/scratch/demo/train.py", line 484, in Train'
LIBRARY = 'File "/opt/venv/lib/python3.11/site-packages/transformers/trainer.py", line 7, in step'


def raised(exception: str, *frames: tuple[str, str], label: str = "") -> str:
    rows = [
        "Traceback (most recent call last):",
        '  File "/scratch/demo/train.py", line 702, in <module>',
        "    Train()",
    ]
    for place, code in frames or ((OWN, "x = y.z"),):
        rows += [f"  {place}", f"    {code}"]
    return "".join(f"{label}{row}\n" for row in (*rows, exception))


def first_fix(log: str) -> str:
    found = diagnose(log)
    assert found.cause
    assert found.cause.id == "python-error"
    return found.fixes[0].do


AT = "`/scratch/demo/train.py:484 in Train`"


@pytest.mark.parametrize(
    ("exception", "fix"),
    [
        ("KeyError: 'input_ids'", f"Fix {AT}: the key 'input_ids' is missing."),
        ("KeyError: 3", f"Fix {AT}: the key 3 is missing."),
        ("AttributeError: 'NoneType' object has no attribute 'deepspeed_config'", f"Fix {AT}: it reads `.deepspeed_config` of a value that is None."),
        ("AttributeError: 'Meter' object has no attribute 'average'", f"Fix {AT}: `Meter` has no `average`."),
        ("TypeError: 'NoneType' object is not subscriptable", f"Fix {AT}: a value used there is None"),
        ("TypeError: build() missing 1 required positional argument: 'vocab'", f"Fix the call at {AT}: `build()` also needs 'vocab'."),
        ("TypeError: Net.__init__() got an unexpected keyword argument 'n'", f"Fix the call at {AT}: `Net.__init__()` does not accept `n`."),
        ("NameError: name 'args' is not defined", f"Fix {AT}: `args` is used before it is set or imported."),
        ("UnboundLocalError: local variable 'lr' referenced before assignment", f"Fix {AT}: `lr` is used before"),
        ("ZeroDivisionError: division by zero", f"Fix {AT}, which raised ZeroDivisionError."),
        ("AttributeError: Can't pickle local object 'main.<locals>.collate'", "Move `main.<locals>.collate` to the top level"),
    ],
)  # fmt: skip
def test_it_is_about_this_exception_and_its_place(exception: str, fix: str) -> None:
    assert first_fix(raised(exception)).startswith(fix)


def test_what_the_program_raised_on_purpose_is_a_check() -> None:
    log = raised("ValueError: 4095 tokens, expected 4096", (OWN, 'raise ValueError(f"{n} tokens, expected {m}")'))
    assert first_fix(log) == f"Fix the data, option or call that the check at {AT} rejects."
    assert first_fix(raised("AssertionError", (OWN, "assert n == m"))).startswith(f"Print the values in the condition of the `assert` at {AT}")  # fmt: skip


def test_a_library_that_raised_it_is_named_with_the_own_line_that_called_it() -> None:
    log = raised("ValueError: odd", (OWN, "trainer.step()"), (LIBRARY, "raise ValueError('odd')"))
    fix = first_fix(log)
    assert fix == f"Check what {AT} passes to transformers: it raised ValueError at transformers/trainer.py:7 in step."


def test_without_a_traceback_the_advice_is_to_find_it() -> None:
    assert "the traceback above this line" in first_fix("[rank3]: KeyError: 'x'\n")


# ── which ranks ──


def advice(found: Diagnosis) -> str:
    return " ".join(f"{fix.do} {fix.why or ''}" for fix in found.fixes)


def test_of_one_process_nothing_is_said_of_ranks() -> None:
    found = diagnose(raised("KeyError: 'x'"))
    assert "rank" not in advice(found)
    assert found.first_failure
    assert "rank" not in " ".join((*found.reasons, found.first_failure.how or ""))


def test_all_ranks_alike_are_the_code_or_the_configuration() -> None:
    log = "".join(f"{r}: world_size=4\n" for r in range(4))
    found = diagnose(log + "".join(raised("KeyError: 'x'", label=f"{r}: ") for r in range(4)))
    assert found.extent.ranks == (0, 1, 2, 3)
    assert "All ranks fail the same way, so it is the code or the configuration" in advice(found)


def test_one_rank_for_which_others_waited_has_other_data_or_another_node() -> None:
    lost = "RuntimeError: [/pytorch/third_party/gloo/gloo/transport/tcp/pair.cc:534] Connection closed by peer [10.0.0.2]:4711\n"
    log = "".join(f"{r}: world_size=4\n" for r in range(4)) + raised("KeyError: 'x'", label="3: ")
    found = diagnose(log + "".join(f"{r}: {lost}" for r in range(3)))
    assert found.first_failure
    assert found.first_failure.rank == 3
    assert "Check what is special about rank 3" in advice(found)


def test_a_missing_iterator_of_a_pipeline_stage_is_no_missing_file() -> None:
    frame = ('File "/scratch/demo/train.py", line 484, in Train', "batch = next(it)")
    log = "".join(f"{r}: pipeline_model_parallel_size ............ 4\n" for r in range(4))
    found = diagnose(log + raised("TypeError: 'NoneType' object is not an iterator", frame, label="1: "))
    assert found.cause
    assert found.cause.id == "python-error"
    assert "with PP 4, some pipeline stages have none" in found.fixes[0].do
