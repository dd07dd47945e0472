"""The console output of programs, which print much before their first metrics."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from command_line import toyspec_within as toyspec
from live_streams import append, nothing, watch
from logs.test_dialects import rows_of
from sample_rows import sample_of
from toyspec import check, read
from toyspec.convert.importing import import_runs
from toyspec.core.reading.follower import TailEvent
from toyspec.core.reading.log_detection import CONSOLE_BYTES, HEAD_BYTES
from toyspec.core.reading.records import Row

SETTINGS = b"I1120 10:00:00 pyconfig.py:591] Config param checkpoint {'period': 0}\n" * 1500


@pytest.mark.parametrize("name", ["maxtext-console", "nanogpt-console", "key-value-console", "mllog"])
def test_metrics_after_many_settings_are_found(name: str, tmp_path: Path) -> None:
    """A program is known by its first metrics, however far within the first part of the output they are."""
    path = sample_of(name)
    assert HEAD_BYTES < len(SETTINGS) < CONSOLE_BYTES
    log = tmp_path / "slurm-1.out"
    log.write_bytes(SETTINGS + path.read_bytes())
    (report,) = check(log).files
    assert report.dialect is not None
    rows = [row.values for row in rows_of(path)]
    assert rows == [row.values for row in rows_of(log)]
    assert (name, len(rows), []) == (report.dialect.name, report.records, report.findings)
    assert name in toyspec("doctor", "--json", str(tmp_path)).stdout.decode()


@pytest.mark.parametrize("size", [0, 700, len(SETTINGS)])
def test_followed_settings_are_not_damage(size: int, tmp_path: Path) -> None:
    """While only text is there, nothing is reported; the metrics come as soon as they are printed."""
    path = sample_of("maxtext-console")
    log = tmp_path / "train.log"
    lines = path.read_bytes().splitlines(keepends=True)
    log.write_bytes(SETTINGS[:size] + b"\n")
    actions = [append(log, line) for line in lines]
    items = watch(log, nothing, *actions, nothing)
    assert [row.raw for row in rows_of(path)] == [item.raw for item in items if isinstance(item, Row)]
    assert [] == [item for item in items if isinstance(item, TailEvent)]


def test_text_without_metrics_is_reported_at_the_end(tmp_path: Path) -> None:
    """A follower gives the gaps that a reading of the whole gives; tail names three, and counts the others."""
    log = tmp_path / "notes.txt"
    log.write_bytes(b"I am text\n" * 40)
    gaps = [item for item in watch(log, nothing) if isinstance(item, TailEvent)]
    reading = read(log, mode="salvage")
    assert [] == list(reading)
    assert [gap.line for gap in reading.report.gaps] == [gap.line for gap in gaps]
    said = toyspec("tail", "--once", str(log)).stderr.decode().splitlines()
    assert 4 == len(said)
    assert "toyspec tail: 37 more lines were skipped; see `toyspec check`" == said[-1]


def curves(
    tmp_path: Path, text: str, name: str = "train.log"
) -> tuple[str | None, dict[str, list[tuple[object, object]]]]:
    """Return the dialect by which a log of *text* is recognized, and the steps and values of each metric."""
    log = tmp_path / name
    log.write_bytes(text.encode())
    reading = read(log, mode="salvage")
    found: dict[str, list[tuple[object, object]]] = {}
    for row in reading:
        assert isinstance(row, Row)
        for metric, value in row.values.items():
            found.setdefault(metric, []).append((row.step, value))
    use = reading.report.dialect
    return None if use is None else use.name, found


@pytest.mark.parametrize(
    ("text", "dialect", "expected"),
    [
        # Names have the words between two marks, and the phase before them.
        (
            "Epoch 1 | Train Loss: 0.5 | Val Loss: 0.75 | Gate Loss: 2\nEpoch 2 | Train Loss: 0.25 | Val Loss: 0.5\n",
            "epoch-console",
            {"Train Loss": [(1, 0.5), (2, 0.25)], "Val Loss": [(1, 0.75), (2, 0.5)], "Gate Loss": [(1, 2)]},
        ),
        (
            "Epoch 1, train loss 0.5 val loss 0.75\n",
            "epoch-console",
            {"train loss": [(1, 0.5)], "val loss": [(1, 0.75)]},
        ),
        (
            "Epoch 1, Step 5: KL Loss=0.5, Total Loss=0.75\nEpoch 2 - Average Loss: 0.25, Samples: 3\n",
            "epoch-console",
            {"KL Loss": [(5, 0.5)], "Total Loss": [(5, 0.75)], "Average Loss": [(5, 0.25)], "Samples": [(5, 3)]},
        ),
        (
            "Epoch 1/9 - Loss Critic: 0.5, Loss Actor: -0.75\n",
            "epoch-console",
            {"Loss Critic": [(1, 0.5)], "Loss Actor": [(1, -0.75)]},
        ),
        (
            "Epoch 1/9:\n  Train - Loss: 0.5 | Acc: 0.25\n  Val - Loss: 0.75 | Acc: 0.125\n",
            "epoch-console",
            {"Loss": [(1, 0.5)], "Acc": [(1, 0.25)], "Val/Loss": [(1, 0.75)], "Val/Acc": [(1, 0.125)]},
        ),
        # The first name in parentheses is one.
        (
            "Epoch 1 | Step 5/10 | Loss: 0.5 (Chamfer=0.25, Repulse=0.75)\n",
            "epoch-console",
            {"Loss": [(5, 0.5)], "Chamfer": [(5, 0.25)], "Repulse": [(5, 0.75)]},
        ),
        # Metrics on the lines after a headline, of several phases.
        (
            (
                "Epoch 1/2\n----------\ntrain Loss: 0.5 Acc: 0.25\nval Loss: 0.75 Acc: 0.5\n"
                "Epoch 2/2\n----------\ntrain Loss: 0.25 Acc: 0.5\nval Loss: 0.5 Acc: 0.75\n"
            ),
            "epoch-console",
            {
                "Loss": [(1, 0.5), (2, 0.25)],
                "Acc": [(1, 0.25), (2, 0.5)],
                "val/Loss": [(1, 0.75), (2, 0.5)],
                "val/Acc": [(1, 0.5), (2, 0.75)],
            },
        ),
        # What is printed before the first epoch is of the settings.
        (
            "loss_weight: 2.0\nEpoch 1/2, loss: 0.5\nValidation accuracy: 51.5%\nBest valid accuracy: 52.5%\n",
            "epoch-console",
            {"loss": [(1, 0.5)], "Validation/accuracy": [(1, 51.5)], "Best valid accuracy": [(1, 52.5)]},
        ),
        # A place without the length of an epoch: one that starts again goes on, one that does not is the step.
        (
            (
                "(epoch: 1, iters: 100, time: 0.5) D_A: 0.5 G_A: 0.25\n"
                "(epoch: 1, iters: 200, time: 0.5) D_A: 0.5 G_A: 0.5\n"
                "(epoch: 2, iters: 50, time: 0.5) D_A: 0.75 G_A: 0.25\n"
            ),
            "epoch-console",
            {
                "time": [(100, 0.5), (200, 0.5), (250, 0.5)],
                "D_A": [(100, 0.5), (200, 0.5), (250, 0.75)],
                "G_A": [(100, 0.25), (200, 0.5), (250, 0.25)],
            },
        ),
        (
            (
                "epoch:0 || iter:0 || Loss:8.5\n->> conf loss:1.5\nepoch:0 || iter:10 || Loss:4.5\n"
                "epoch:1 || iter:20 || Loss:2.5\n"
            ),
            "epoch-console",
            {"Loss": [(0, 8.5), (10, 4.5), (20, 2.5)], "conf loss": [(0, 1.5)]},
        ),
        (
            "Epoch 0, Step 25, avg loss so far is 0.5\nEpoch 0, Step 50, avg loss so far is 0.25\n",
            "epoch-console",
            {"avg loss": [(25, 0.5), (50, 0.25)]},
        ),
        (
            "[Fold 1 Ep 001] tr_loss=0.5 | val_auc=0.25\n[Fold 1 Ep 002] tr_loss=0.25 | val_auc=0.75\n",
            "epoch-console",
            {"tr_loss": [(1, 0.5), (2, 0.25)], "val_auc": [(1, 0.25), (2, 0.75)]},
        ),
        (
            "[5/100] Train loss: 0.5, Valid loss: 0.75\nCurrent_accuracy : 96.5, Best_accuracy    : 97.5\n",
            "key-value-console",
            {
                "Train loss": [(5, 0.5)],
                "Valid loss": [(5, 0.75)],
                "Current_accuracy": [(5, 96.5)],
                "Best_accuracy": [(5, 97.5)],
            },
        ),
        (
            (
                "Loss at epoch 0 and iteration 0 is 8.5\nNCE Loss at epoch 0 and iteration 0 is 1.5\n"
                "Loss at epoch 0 and iteration 500 is 4.5\nLoss at epoch 1 and iteration 500 is 2.5\n"
            ),
            "sentence-console",
            {"Loss": [(0, 8.5), (500, 4.5), (1000, 2.5)], "NCE Loss": [(0, 1.5)]},
        ),
        (
            "Cost after iteration 0: 0.5\nCost after iteration 100: nan\n",
            "sentence-console",
            {"Cost": [(0, 0.5), (100, float("nan"))]},
        ),
        (
            "".join(f"# setting {at}: 0.5\n" for at in range(9)) + "Epoch,Loss\n1,0.5\n2,0.25\n",
            "csv",
            {"Loss": [(1, 0.5), (2, 0.25)]},
        ),
        ("loss,cer\n0.5,1.5\n0.25,1.25\n", "rows-csv", {"loss": [(0, 0.5), (1, 0.25)], "cer": [(0, 1.5), (1, 1.25)]}),
        ("loss, acc, time\n0.5,1.5,2.5\n", "rows-csv", {"loss": [(0, 0.5)], "acc": [(0, 1.5)], "time": [(0, 2.5)]}),
        # The percentage of a progress bar is not a metric.
        (
            (
                "Epoch 1/2 train:   0%|          | 0/3 [00:00<?, ?it/s]\r"
                "Epoch 1/2 train: 100%|██████████| 3/3 [00:01<00:00]\n"
                "Epoch 1/2 val:  50%|█████     | 1/2 [00:01<00:01, loss=0.5]\nEpoch 1/2 | acc: 71% | Train Loss: 0.25\n"
            ),
            "epoch-console",
            {"loss": [(1, 0.5)], "acc": [(1, 71)], "Train Loss": [(1, 0.25)]},
        ),
        # Each number of a list is a metric; a place in brackets is none.
        (
            "step=1 loss=1.5 losses=[0.5, 0.25] Val Loss: [1. .5] at: [0]\nval accs: [0.5, nan]\n",
            "key-value-console",
            {
                "loss": [(1, 1.5)],
                "losses/0": [(1, 0.5)],
                "losses/1": [(1, 0.25)],
                "Val Loss/0": [(1, 1.0)],
                "Val Loss/1": [(1, 0.5)],
                "val/accs/0": [(1, 0.5)],
                "val/accs/1": [(1, float("nan"))],
            },
        ),
        (
            "Episode 1 | Reward: 2.5 | Q Values: [0.5, (0.25)] | Losses: (0.5, 0.25)\n",
            "episode-console",
            {"Reward": [(1, 2.5)], "Losses/0": [(1, 0.5)], "Losses/1": [(1, 0.25)]},
        ),
        # Numbers as their libraries print them.
        (
            "step=1 loss=1.5 l2=tensor(0.5, grad_fn=<MeanBackward0>) a: array([1., 2.]) b=np.float64(0.25)\n",
            "key-value-console",
            {"loss": [(1, 1.5)], "l2": [(1, 0.5)], "a/0": [(1, 1.0)], "a/1": [(1, 2.0)], "b": [(1, 0.25)]},
        ),
        ("step=1 loss=0.5 at=0x1f\n", "key-value-console", {"loss": [(1, 0.5)]}),
        # A line with a step that is none is not at the step before.
        (
            (
                "step: 1 loss: 0.5\nstep: 1e400 loss: 0.25\nstep: nan loss: 0.75\nstep: 1e1 loss: 1.5\n"
                "step: 0.5 loss: 2.5\n"
            ),
            "key-value-console",
            {"loss": [(1, 0.5), (None, 0.25), (None, 0.75), (10, 1.5), (10, 2.5)], "step.1": [(10, 0.5)]},
        ),
        # A count with its percentage is the percentage; it is of the phase that the line begins with.
        (
            "Train Epoch: 1 [0/64 (0%)]\tLoss: 2.5\nTest set: Average loss: 0.5, Accuracy: 9/12 (75%)\n",
            "epoch-console",
            {"Loss": [(0, 2.5)], "Test/Average loss": [(0, 0.5)], "Test/Accuracy": [(0, 75)]},
        ),
        (
            "Epoch 1: loss: 0.5\nTEST : loss 0.25 - score 0.75\n",
            "epoch-console",
            {"loss": [(1, 0.5)], "TEST/loss": [(1, 0.25)], "TEST/score": [(1, 0.75)]},
        ),
        (
            (
                "[2026-05-31 09:30:00,250] [    INFO] - epoch: 1, loss: 0.5\n"
                "[2026-05-31 09:30:01,250] [    INFO] - eval loss: 0.25, acc: 0.75\n"
            ),
            "epoch-console",
            {"loss": [(1, 0.5)], "eval/loss": [(1, 0.25)], "eval/acc": [(1, 0.75)]},
        ),
        # A place in its epoch has commas between thousands, and brackets of its own.
        (
            "[epoch:  0, iter:     900, lr: 0.5] loss: 0.75\n[epoch:  1, iter:   1,000, lr: 0.5] loss: 0.25\n",
            "epoch-console",
            {"lr": [(900, 0.5), (1000, 0.5)], "loss": [(900, 0.75), (1000, 0.25)]},
        ),
        (
            "[Epoch 0/9] [Batch 5/10] [D loss: 0.5] [G loss: 0.75]\n[Epoch 1/9] [Batch 5/10] [D loss: 0.25]\n",
            "epoch-console",
            {"D loss": [(5, 0.5), (15, 0.25)], "G loss": [(5, 0.75)]},
        ),
        (
            "[0/25][5/10]\tLoss_D: 0.5\tLoss_G: 0.75\n[1/25][5/10]\tLoss_D: 0.25\tLoss_G: 0.5\n",
            "epoch-console",
            {"Loss_D": [(5, 0.5), (15, 0.25)], "Loss_G": [(5, 0.75), (15, 0.5)]},
        ),
        (
            "epoch: [1/500], global_step: 10, loss: 0.5\nepoch: [1/500], global_step: 20, loss: 0.25\n",
            "epoch-console",
            {"loss": [(10, 0.5), (20, 0.25)]},
        ),
        # A step after its values.
        (
            "INFO:tensorflow:loss = 2.5, step = 1\nINFO:tensorflow:loss = 1.5, step = 101 (2.25 sec)\n",
            "key-value-console",
            {"loss": [(1, 2.5), (101, 1.5)]},
        ),
        (
            "loss: 0.5, lr: 3e-05, global_step: 10, speed: 2.5\nloss: 0.25, lr: 2e-05, global_step: 20, speed: 2.25\n",
            "key-value-console",
            {
                "loss": [(10, 0.5), (20, 0.25)],
                "lr": [(10, 3e-05), (20, 2e-05)],
                "global_step": [(10, 10), (20, 20)],
                "speed": [(10, 2.5), (20, 2.25)],
            },
        ),
        (
            "step 0: train loss 2.5 BPC, val loss 2.25 BPC\n",
            "nanogpt-console",
            {"train_loss": [(0, 2.5)], "val_loss": [(0, 2.25)]},
        ),
        # Tables of results have settings beside the metrics.
        ("time,loss,model\n0.5,0.25,3\n", None, {}),
        ("time,lr\n0.5,0.25\n", None, {}),
        ("model,loss\nsmall,0.5\nlarge,0.25\n", None, {}),
        ("batch_size,lr,loss\n32,0.5,0.25\n64,0.5,0.125\n", None, {}),
        # Prose has steps and numbers too.
        ("Epoch 5 of the council: the loss was great.\nThey paid 3 coins.\n", None, {}),
        ("In step 3 of 7 the accuracy of the clock is checked: wait 2 minutes.\n", None, {}),
    ],
)
def test_console_output_in_the_words_of_its_author(
    text: str, dialect: str | None, expected: dict[str, list[tuple[object, object]]], tmp_path: Path
) -> None:
    """Each value is at its step, under the words that the program prints before it; other text is not read."""
    found, values = curves(tmp_path, text)
    # A NaN is not equal to itself.
    assert (dialect, repr(expected)) == (found, repr({name: values[name] for name in (expected or values)}))
    assert expected.keys() == values.keys()


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("cm=[[1, 2], [3, 4]]", "[[1, 2]"),
        ("x=(0.5)", "(0.5)"),
        ("x: ~0.5", "~0.5"),
        ("x: $1.5", "$1.5"),
        ("x: \N{MINUS SIGN}0.5", "\N{MINUS SIGN}0.5"),
        ("x=0.5 (0.25)", "(0.25)"),
        ("x: 0.5 / 0.25", "/ 0.25"),
        ("x=0.5 ids=[1, 2] k: tensor(0.5) at: [5/9] took: 1:30 url: http://127.0.0.1:80/ n: -", None),
    ],
)
def test_a_number_that_is_not_read_is_named(text: str, named: str | None, tmp_path: Path) -> None:
    """What has a name and is in no record is in the notes on how the log is read."""
    log = tmp_path / "train.log"
    log.write_text("".join(f"step={step} loss=0.5 {text}\n" for step in (1, 2)), encoding="utf-8")
    (report,) = check(log).files
    assert report.dialect is not None
    facts = () if named is None else (f"what is not read as numbers is left out, such as {named!r}",)
    assert facts == report.dialect.notes


def test_phase_that_comes_after_many_records_is_one_of_its_own(tmp_path: Path) -> None:
    """An evaluation is not a point of the training's curve, however many records are before it."""
    epoch = "".join(f"Epoch 1 [{at}/100] Loss: 2.5\n" for at in range(100))
    _, values = curves(tmp_path, f"{epoch}val Loss: 0.5\n")
    assert {"Loss": 100, "val/Loss": 1} == {name: len(found) for name, found in values.items()}


def test_phase_of_json_lines_may_come_after_many_records(tmp_path: Path) -> None:
    """The first records of a training need not name their phase."""
    train = "".join(f'{{"step":{step},"loss":2.5}}\n' for step in range(100))
    _, values = curves(tmp_path, f'{train}{{"step":100,"mode":"val","loss":0.5}}\n', "train.jsonl")
    assert {"loss": 100, "val/loss": 1} == {name: len(found) for name, found in values.items()}


def test_log_after_a_long_preamble_is_imported_as_it_is_read(tmp_path: Path) -> None:
    """A reading that names the dialect finds the keys of the records as far within the output as one that does not."""
    log = tmp_path / "train.log"
    preamble = "installing\n" * (HEAD_BYTES // 10)
    log.write_text(f"{preamble}train Epoch 1, loss: 0.5\nval Epoch 1, loss: 0.75\n")
    values = [row.values for row in read(log) if isinstance(row, Row)]
    assert [{"loss": 0.5}, {"val/loss": 0.75}] == values
    named = [row.values for row in read(log, dialect="epoch-console") if isinstance(row, Row)]
    assert values == named
    assert 0 == toyspec("import", str(log), "--out", str(tmp_path / "runs")).returncode
    made = [record.values for record in read(tmp_path / "runs" / "train") if record.kind == "scalars"]
    assert values == made


EPOCHS = "Epoch 1: loss: 0.5\nEpoch 2: loss: 0.25\n"


@pytest.mark.parametrize(
    ("line", "names"),
    [
        ("PER  tp: 7 - fp: 3 - precision: 0.7 - recall: 0.5 (micro)", "precision, recall"),
        (" Average Precision  (AP) @[ IoU=0.50:0.95 | area=all | maxDets=100 ] = 0.312", "Average Precision"),
        ("   | > avg_loss: 0.25  (-0.125)", "avg_loss"),
        ("--> cur metric, acc: 0.75, norm_edit_dis: 0.5 (3 of 5 files)", "acc"),
        # Settings, versions, places and prose are not values.
        ("(loss): CrossEntropyLoss(label_smoothing=0.1)", None),
        ("(score_threshold=0.5, loss_weight: 2.5) of 1 head", None),
        ("W1205 compute capability: 7.0, driver version: 10.1", None),
        ("saved 3 files for acc in 2.5 s", None),
        ("loss of 3 packets", None),
    ],
)
def test_a_line_with_values_that_no_pattern_matches_is_a_finding(line: str, names: str | None, tmp_path: Path) -> None:
    """It is found once for each name, with its line, and the notes count such lines; a line of other output is not."""
    log = tmp_path / "train.log"
    log.write_text(f"{EPOCHS}{line}\n{line}\n", encoding="utf-8")
    (report,) = check(log).files
    assert report.dialect is not None
    fact = f"`{names}` is left out: no pattern of the dialect matches this line"
    found = [(finding.rule, finding.line, finding.message) for finding in report.findings]
    assert ([] if names is None else [("values-left-out", 3, fact)]) == found
    notes = () if names is None else ("2 lines with values are left out, since no pattern matches",)
    assert notes == report.dialect.notes


def test_settings_before_the_first_record_are_not_left_out_unless_they_come_again(tmp_path: Path) -> None:
    """What is printed before the first record is of the settings; a line that comes twice is not."""
    log = tmp_path / "train.log"
    for early, lines in [(" # psnr: 2.5\n", []), (" # psnr: 2.5\n" * 2, [2])]:
        log.write_text(early + EPOCHS)
        assert lines == [finding.line for finding in check(log).files[0].findings]


@pytest.mark.parametrize(
    ("name", "head", "line"),
    [
        ("train.log", "", "step: {} loss: 0.25\n"),
        ("train.csv", "step,loss\n", "{},0.25\n"),
        ("train.jsonl", "", '{{"step":{},"loss":0.25}}\n'),
    ],
)
@pytest.mark.parametrize("rows", [1, 300])
def test_a_step_beyond_binary64_is_none_and_reported(
    name: str, head: str, line: str, rows: int, tmp_path: Path
) -> None:
    """A record with a step that is not finite has no step, which is a finding, in tables too."""
    log = tmp_path / name
    log.write_text(head + "".join(line.format(step) for step in [*range(rows), "1e400"]))
    found = [(finding.line, finding.message) for finding in check(log).files[0].findings]
    assert [(rows + 1 + bool(head), "`step` is inf, expected a finite number")] == found
    assert [None] == [row.step for row in read(log, mode="salvage") if isinstance(row, Row)][-1:]


def test_a_headline_is_not_the_end_of_its_epoch(tmp_path: Path) -> None:
    """A run that was killed in its last epoch did not end; nor does a step beyond the number of epochs end one."""
    log = tmp_path / "train.log"
    for text, code in [
        ("Epoch 1/2\nloss: 0.5\nEpoch 2/2\n", 1),
        ("Epoch 1/2\nloss: 0.5\nEpoch 2/2\nloss: 0.25\n", 0),
        ("Epoch 1/3, Step 40/50, loss: 0.5\nEpoch 1/3, avg loss: 0.5\nEpoch 2/3, Step 50/50, loss: 0.5\n", 1),
    ]:
        log.write_text(text)
        assert code == toyspec("check", "--require-complete", str(log)).returncode, text


def test_a_long_progress_bar_is_read_to_its_end(tmp_path: Path) -> None:
    """However often a line was overwritten, what a terminal shows in the end is read."""
    states = [f"Epoch 1/2: {at:3}%|{'#' * 40:40}| loss: 0.{at:03}" for at in range(1, 300)]
    name, values = curves(tmp_path, "\r".join(states) + "\n")
    assert ("epoch-console", {"loss": [(1, 0.299)]}) == (name, values)


@pytest.mark.parametrize(
    ("text", "advice"),
    [
        ("0.5\n0.25\n0.125\n", "--columns step,loss"),
        ("[0.5, 0.25, 0.125]", "jq -c '.[]'"),
        ("[2026-05-31 09:30:00,250] skipped=0 momentum=[0.9, 0.95]\n", "describe it as a dialect in toyspec.toml"),
        ("1,0.5,0.25\n2,0.5,0.25\n", "--columns step,loss"),
        ("1 0.5 0.25\n2 0.5 0.25\n", "describe it as a dialect in toyspec.toml"),
    ],
)
def test_numbers_without_a_name_come_with_what_names_them(text: str, advice: str, tmp_path: Path) -> None:
    """What is not read as a log comes with the option, or the command, that reads it."""
    file = tmp_path / "loss.txt"
    file.write_text(text)
    assert advice in toyspec("check", str(file)).stdout.decode()


def test_a_column_without_a_name_is_read_by_the_advice(tmp_path: Path) -> None:
    """The values are in the order of their lines."""
    (tmp_path / "loss.txt").write_text("0.5\n0.25\n0.125\n")
    shown = toyspec("show", "--columns", "loss", str(tmp_path / "loss.txt")).stdout.decode()
    assert "first 0.5, last 0.125" in shown


def test_metrics_of_a_phase_have_names_of_their_own(tmp_path: Path) -> None:
    """A name that only begins with the letters of the phase is not of it, and no two members become one metric."""
    path = tmp_path / "metrics.jsonl"
    rows: list[dict[str, Any]] = [
        {"step": 1, "loss": 2.5, "value_loss": 1.0},
        {"step": 1, "phase": "val", "loss": 0.5, "val": {"loss": 0.75}, "value_loss": 0.25, "val_acc": 0.125},
        {"step": 2, "phase": "val", "loss": "NaN", "val": {"loss": "text"}, "": 4},
    ]
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    second = {"val/loss": 0.5, "val/val/loss": 0.75, "val/value_loss": 0.25, "val_acc": 0.125}
    found = [record.values for record in read(path)]
    assert [{"loss": 2.5, "value_loss": 1.0}, second] == found[:2]
    assert ["val/loss", "val/"] == list(found[2])
    report = import_runs([path], tmp_path / "out")
    assert ["converted"] == [run.status for run in report.runs]
    imported = [each.value["values"] for each in read(tmp_path / "out" / "metrics") if each.kind == "scalars"]
    assert [{"loss": 2.5, "value_loss": 1.0}, second, {"val/loss": None, "val/": 4.0}] == imported
