"""The JSON contract: every key, for every shape of answer, and nothing that a parser could trip over."""

import json
from importlib import resources
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from hypothesis import given, settings, strategies as st
from msgspec.structs import replace
from syrupy.assertion import SnapshotAssertion

from report_examples import CUDA_OOM, EXAMPLES, NO_FAILURE
from slurmdoctor import Diagnosis, diagnose
from slurmdoctor.model import FirstFailure, JobRecord
from slurmdoctor.report.result import render, to_dict
from test_report_goldens import TextFile

SCHEMA: dict[str, Any] = json.loads((resources.files("slurmdoctor.report") / "schema.json").read_text())
CHECK = jsonschema.Draft202012Validator(SCHEMA)

KEYS = list(to_dict(NO_FAILURE))[:15]  # named one by one in the contract's own test


@pytest.mark.parametrize("diagnosis", [*EXAMPLES.values(), Diagnosis("unknown")], ids=[*EXAMPLES, "bare"])
def test_every_answer_fits_the_schema(diagnosis: Diagnosis) -> None:
    jsonschema.Draft202012Validator.check_schema(SCHEMA)
    read = json.loads(render(diagnosis, "json"))
    CHECK.validate(read)
    assert read == json.loads(json.dumps(diagnosis.to_dict()))
    assert list(read)[: len(KEYS)] == KEYS


def test_the_contract_of_the_house(snapshot: SnapshotAssertion) -> None:
    assert json.dumps({**to_dict(CUDA_OOM), "slurmdoctor": "VERSION"}, indent=1) + "\n" == snapshot(
        extension_class=TextFile
    )
    assert to_dict(CUDA_OOM)["schema_version"] == 1


def test_no_failure_has_no_cause() -> None:
    said = to_dict(NO_FAILURE)
    assert said["cause"]["id"] is None
    assert said["retry"]["advice"] is None
    assert said["first_failure"]["rank"] is None
    assert said["evidence"] == said["fixes"] == []


def test_the_schema_misses_a_missing_key_and_refuses_what_the_contract_does_not_name() -> None:
    for key in KEYS:
        said = to_dict(CUDA_OOM)
        del said[key]
        assert not CHECK.is_valid(said)
    said = to_dict(CUDA_OOM)
    said["exit"]["class"] = "exploded"
    assert not CHECK.is_valid(said)


@settings(deadline=None)  # a loaded machine is no bug
@given(
    st.text(st.characters(), max_size=60),
    st.one_of(st.floats(), st.tuples(st.integers()), st.sets(st.integers()), st.dictionaries(st.text(), st.floats())),
)
def test_any_text_and_any_fact_is_json(text: str, fact: object) -> None:
    diagnosis = replace(CUDA_OOM, first_failure=FirstFailure(text=text, traceback=(text,)), facts={"x": fact, text: 1})
    shown = render(diagnosis, "json")
    assert shown.isascii()
    CHECK.validate(json.loads(shown, parse_constant=pytest.fail))


def test_a_job_is_named_by_its_files_names_and_by_slurms_record(tmp_path: Path) -> None:
    log = tmp_path / "slurm-4711_3.out"
    log.write_text("[rank3]: KeyError: 'x'\n")
    assert diagnose(log).to_dict()["job"] == {"id": "4711_3", "array_task": 3, "name": None, "files": [str(log)]}
    record = JobRecord("4714", "train", array_job="4711", array_task=3)
    told = diagnose(log.read_text(), record=record).to_dict()["job"]
    assert told == {"id": "4711_3", "array_task": 3, "name": "train", "files": []}
    assert diagnose("KeyError: 'x'\n").to_dict()["job"] == {"id": None, "array_task": None, "name": None, "files": []}
