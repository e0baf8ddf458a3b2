"""An everyday exception gets the cause that its words tell; whoever knows the message itself knows better; without a traceback it is a remark."""

from pathlib import Path

import pytest

import rule_files
from builders import cause_of, raised
from slurmdoctor import diagnose

STEPS = "".join(f"step {number}/2000 loss 2.31\n" for number in range(1, 30))


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        ("ValueError: tape shapes do not match", "tensor-mismatch"),
        ("demo.errors.GridError: cannot read /scratch/demo/grid.nc: No such file or directory", "file-not-found"),
        ("lmdb.DiskError: commit failed: No space left on device", "disk-full"),
        ("demo.TrainingError: loss became NaN at step 7", "nan"),
        ("ValueError: Unknown optimizer: adamz", "usage-error"),
        ("AssertionError: batch size 30 is not divisible by 8", "parallelism"),
        ("KeyError: 'label'", "python-error"),
        ("ValueError: too many values to unpack (expected 2)", "python-error"),
        ("TypeError: fit() got an unexpected keyword argument 'dtype'", "python-error"),
    ],
)
def test_the_wording_tells_the_cause_of(error: str, expected: str) -> None:
    assert cause_of(STEPS, raised(error)) == expected


def test_a_rule_that_knows_the_message_comes_before_the_wording(tmp_path: Path) -> None:
    (tmp_path / "lost-tape.yaml").write_text(rule_files.cause_file("site/lost-tape"))
    assert cause_of(raised("FileNotFoundError: tape library is gone"), rules=[tmp_path]) == "site/lost-tape"


def test_a_remark_about_an_error_is_no_failure() -> None:
    assert cause_of("ValueError: tape shapes do not match, sample skipped\n" + STEPS) is None
    assert cause_of(STEPS + "ValueError: tape shapes do not match\n" + "sample skipped\n" * 3) is None


def test_a_paste_of_the_one_line_is_answered_with_low_confidence() -> None:
    cause = diagnose("[rank3]: ValueError: shapes (3,4) and (3,4) not aligned\n").cause
    assert (cause.id, cause.confidence) == ("tensor-mismatch", "low")


@pytest.mark.parametrize(
    "label",
    [
        "[2026-03-01 14:53:32,330] torch._dynamo.convert_frame: [WARNING] ",
        "W0301 14:53:32.330000 4411 site-packages/torch/_dynamo/convert_frame.py:1125] ",
    ],
)
def test_a_traceback_that_was_logged_as_a_warning_is_no_failure(label: str) -> None:
    message = "torch._dynamo.exc.BackendCompilerFailed: backend='inductor' raised:\nFileNotFoundError: [Errno 2] No such file or directory: 'ldconfig'"
    logged = raised(message, label).replace("\nFile", f"\n{label}File")
    assert cause_of(logged) is None
    assert cause_of(logged.replace("WARNING", "ERROR").replace("W0301", "E0301")) == "file-not-found"
