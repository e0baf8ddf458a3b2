"""Training steps are read through whatever logger prints them, and the last one is told."""

from __future__ import annotations

import time

import pytest

from slurmdoctor import diagnose
from slurmdoctor.knowledge import folders, load
from slurmdoctor.matching.patterns import captures

ENDED = "slurmstepd: error: *** JOB 4711 ON node07 CANCELLED AT 2026-05-12T12:16:22 DUE TO TIME LIMIT ***\n"
FORMS = {
    "kempnerforge": "[rank 0] INFO     [step {0}] loss=5.65 | lr=3.00e-04 | mem=61.2/80GB | step_time=2.71s",
    "kempnerforge_in_colour": "\x1b[2m[rank 0]\x1b[0m \x1b[32mINFO    \x1b[0m [step {0}] loss=5.65 | lr=3.00e-04",
    "kempnerforge_under_srun": "0: [rank 0] INFO     [step {0}] loss=5.65 | lr=3.00e-04",
    "kempnerforge_stamped": "2026-05-12 10:14:02 [rank 0] INFO     [step {0}] loss=5.65 | lr=3.00e-04",
    "hydra": "[2026-05-12 10:14:02,123][train][INFO] - step {0}/1000 loss=5.65 lr=3e-4",
    "logging": "INFO:root:step {0} loss 5.65",
    "logging_dated": "05/12/2026 10:14:02 - INFO - __main__ - step {0}: loss 5.65",
    "loguru": "2026-05-12 10:14:02.123 | INFO     | train:main:41 - step {0} loss=5.65",
    "structlog": "2026-05-12 10:14:02 [info     ] train_step             loss=5.65 step={0}",
    "json_lines": '{{"step": {0}, "loss": 2.31, "lr": 0.0003}}',
    "nemo": "[NeMo I 2026-05-12 10:14:02 nemo_logging:393] Training epoch 0, iteration {0}/1999 | lr: 7.5e-05",
    "nemo_bar": "Epoch 0: :   1%|          | {0}/3600 [01:10<1:00:40, v_num=3, reduced_train_loss=10.30]",
    "lightning_bar": "Epoch 0:  10%|█         | {0}/5000 [00:10<01:40,  1.20it/s, v_num=3, train_loss=2.31]",
    "lightning_rich": "Epoch 0/9  ━━━━━━━━━━━━ {0}/5000 0:00:10 • 0:01:40 1.20it/s v_num: 3.000 train_loss: 2.310",
    "torchtitan": "[rank0]:[titan] 2026-05-12 10:14:02,123 - root - INFO - step: {0}  loss:  4.6637  tps: 1,420",
    "litgpt": "Epoch 1 | iter 64 step {0} | loss train: 1.684, val: n/a | iter time: 421.03 ms (step)",
    "automodel": "2026-05-12 10:14:02 | INFO | nemo_automodel.recipes.llm.train_ft | step {0} | epoch 0 | loss 2.3112",
    "nanotron": "05/12/2026 10:14:02 [INFO|DP=0|PP=0|TP=0|node07]: iteration: {0} / 5000 | lm_loss: 10.9",
    "nanogpt": "iter {0}: loss 3.2109, time 412.10ms, mfu 41.2%",
    "olmo": "2026-05-12 10:14:02.123\tnode07:0\tolmo.train:896\tINFO\t[step={0}/500000,epoch=0]",
    "verl": "(TaskRunner pid=123) step:{0} - actor/pg_loss:0.01 - timing_s/step:31.2",
    "tutorial": "Epoch [1/10], Step [{0}/600], Loss: 0.2310",
}  # fmt: skip


@pytest.mark.parametrize("name", FORMS)
def test_a_step_is_read_in_every_format(name: str) -> None:
    found = diagnose("".join(f"{FORMS[name].format(step)}\n" for step in (10, 20, 30, 40)) + ENDED)
    assert found.facts["last_step"] == 40


@pytest.mark.parametrize(
    "line",
    [
        "[rank 0] INFO     Starting training: step=0, max_steps=50000, batch_size=4",
        "[rank 0] INFO     Resumed from step 500, 262,144,000 tokens seen",
        "INFO - checkpoint of step 500 loaded, loss scale 65536",
        '{"step": 40, "event": "checkpoint saved"}',
    ],
)
def test_what_only_names_a_step_is_none(line: str) -> None:
    assert diagnose(f"{line}\n{ENDED}").facts.get("last_step") is None


def test_a_step_of_sixty_metrics_is_soon_seen_to_be_no_bar() -> None:
    metrics = " - ".join(f"training/rollout_{number}/mean:{number}.5" for number in range(60))
    line = f"(TaskRunner pid=123) step:40 - {metrics} - timing_s/step:31.2"
    assert 1800 < len(line) < 4096
    for signal in load(folders([]), examples=False).signals:
        if signal.kind == "progress":
            captures(signal.regex, line)  # compiled, and no more of that
            began = time.thread_time()
            for _ in range(5):
                captures(signal.regex, line)
            assert time.thread_time() - began < 5 * 0.004, signal.id
