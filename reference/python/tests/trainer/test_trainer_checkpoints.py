"""Checkpoints: what is in them, and that none is ever half written."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import Any

import pytest

gguf = pytest.importorskip("gguf", reason="the extra `train` is not installed")
np = pytest.importorskip("numpy")

from toyspec.trainer import AdamW  # noqa: E402
from toyspec.trainer.language_model import LanguageModel, shipped_text  # noqa: E402
from toyspec.trainer.run_files import (  # noqa: E402
    CheckpointError,
    CheckpointFacts,
    TrainingProgress,
    load_checkpoint,
    save_checkpoint,
    saved_steps,
)

TEXT = shipped_text()
FACTS = CheckpointFacts("run", {"lr": 0.005, "steps": 3}, TEXT.vocabulary)
PROGRESS = TrainingProgress(3, first_loss=3.5, loss=float("nan"))


def trained(steps: int = 3) -> LanguageModel:
    """Return a model after some steps."""
    model, optimizer = LanguageModel(len(TEXT.vocabulary), 7), AdamW(lr=5e-3)
    for step in range(1, steps + 1):
        model.train(TEXT.batch(model, 7, step), optimizer)
    return model


def test_file_is_gguf_with_named_tensors(tmp_path: Path) -> None:
    """The file says its architecture, sizes and vocabulary in GGUF's own keys; weights are F16 under GGUF's names."""
    model = trained()
    reader = gguf.GGUFReader(save_checkpoint(str(tmp_path), model, PROGRESS, FACTS))
    said = {key: field.contents() for key, field in reader.fields.items()}
    assert ("mlp", "run", 3) == (said["general.architecture"], said["toyspec.run_id"], said["toyspec.step"])
    assert model.context == said["mlp.context_length"]
    sizes = {"d_model": "embedding_length", "n_layers": "block_count", "vocab": "vocab_size"}
    described = model.described()
    assert [described[name] for name in sizes] == [said[f"mlp.{key}"] for key in sizes.values()]
    assert TEXT.vocabulary == said["tokenizer.ggml.tokens"]
    types = {tensor.name: tensor.tensor_type.name for tensor in reader.tensors}
    assert "F16" == types["token_embd.weight"]
    assert "F32" == types["adamw.m.token_embd.weight"] == types["adamw.v.token_embd.weight"]
    assert 3 * len(model.parameters) == len(types)


def test_latest_is_a_relative_link_to_the_newest(tmp_path: Path) -> None:
    """``latest`` moves on with each checkpoint; the older ones stay, and other files are not checkpoints."""
    model = trained()
    for step in (5, 40, 300):
        save_checkpoint(str(tmp_path), model, PROGRESS._replace(step=step), FACTS)
    for name in ("step_05.gguf", "step_7.gguf.bak", "step_.gguf"):
        (tmp_path / name).touch()
    assert "step_300.gguf" == os.readlink(tmp_path / "latest")
    assert [300, 40, 5] == saved_steps(str(tmp_path))
    assert [] == saved_steps(str(tmp_path / "nowhere"))


def test_checkpoint_that_fails_leaves_the_old_ones(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """When the disk is full nothing half written stays, and ``latest`` is the last whole checkpoint."""
    model = trained()
    save_checkpoint(str(tmp_path), model, PROGRESS, FACTS)

    def full(*_: Any, **__: Any) -> None:
        raise OSError(errno.ENOSPC, "no space")

    monkeypatch.setattr(gguf.GGUFWriter, "write_tensors_to_file", full)
    with pytest.raises(OSError, match="no space"):
        save_checkpoint(str(tmp_path), model, PROGRESS._replace(step=4), FACTS)
    assert ["latest", "step_3.gguf"] == sorted(os.listdir(tmp_path))
    assert "step_3.gguf" == os.readlink(tmp_path / "latest")


def test_every_truncation_is_refused(tmp_path: Path) -> None:
    """A file that was cut anywhere is an error that names it, and the model stays as it was."""
    whole = Path(save_checkpoint(str(tmp_path), trained(), PROGRESS, FACTS)).read_bytes()
    model = trained(0)
    before = [parameter.weight.tobytes() for parameter in model.parameters]
    for size in [*range(0, 4000, 37), *range(4000, len(whole), 20_011)]:
        (tmp_path / "step_3.gguf").write_bytes(whole[:size])
        with pytest.raises(CheckpointError, match=r"step_3\.gguf is damaged"):
            load_checkpoint(str(tmp_path), 3, model, FACTS)
    assert before == [parameter.weight.tobytes() for parameter in model.parameters]


def test_checkpoint_of_another_run_is_refused(tmp_path: Path) -> None:
    """Another size, and a file under another step's name."""
    path = Path(save_checkpoint(str(tmp_path), trained(), PROGRESS, FACTS))
    with pytest.raises(CheckpointError, match=r"no tensor token_embd\.weight of the right shape"):
        load_checkpoint(str(tmp_path), 3, LanguageModel(3, 0), FACTS)
    path.rename(tmp_path / "step_9.gguf")
    with pytest.raises(CheckpointError, match="other settings"):
        load_checkpoint(str(tmp_path), 9, trained(0), FACTS)
