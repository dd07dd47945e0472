"""Writes this sample: ``python make.py`` with llamafactory 0.9.5, transformers 5.6.0, torch 2.15.0.

The training is the program's own, of a model of random weights. The module torchaudio, which only reads sound, is
replaced by an empty one: no release of it fits this version of torch.
"""

import importlib.machinery
import json
import os
import shutil
import sys
import types
from typing import Any

import torch
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast, TrainerCallback, set_seed

sys.modules["torchaudio"] = types.ModuleType("torchaudio")
sys.modules["torchaudio"].__spec__ = importlib.machinery.ModuleSpec("torchaudio", None)

from llamafactory.train.tuner import run_exp  # noqa: E402 (imports torchaudio)


class Spoil(TrainerCallback):
    """Makes the loss not a number from a step on."""

    def on_step_begin(self, args: Any, state: Any, control: Any, model: Any = None, **_: Any) -> None:
        """Overwrite a weight."""
        if state.global_step == 18:
            torch.nn.init.constant_(model.lm_head.weight, float("nan"))


os.makedirs("out/data")
words = {word: place for place, word in enumerate(["<unk>", "<s>", "</s>", *map(str, range(61))])}
tokenizer = Tokenizer(models.WordLevel(words, unk_token="<unk>"))
tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
special = {"unk_token": "<unk>", "bos_token": "<s>", "eos_token": "</s>", "pad_token": "</s>"}
PreTrainedTokenizerFast(tokenizer_object=tokenizer, **special).save_pretrained("out/model")
set_seed(7)
shape = {"hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2}
LlamaForCausalLM(LlamaConfig(vocab_size=len(words), **shape)).save_pretrained("out/model")
with open("out/data/few.json", "w", encoding="utf-8") as file:
    json.dump([{"text": " ".join(str((start + i) % 61) for i in range(16))} for start in range(40)], file)
with open("out/data/dataset_info.json", "w", encoding="utf-8") as file:
    json.dump({"few": {"file_name": "few.json", "columns": {"prompt": "text"}}}, file)
run_exp(
    {
        "model_name_or_path": "out/model",
        "stage": "pt",
        "do_train": True,
        "finetuning_type": "full",
        "dataset": "few",
        "dataset_dir": "out/data",
        "template": "empty",
        "cutoff_len": 16,
        "val_size": 8,
        "output_dir": "out/run",
        "logging_steps": 5,
        "logging_nan_inf_filter": False,
        "eval_strategy": "steps",
        "eval_steps": 10,
        "save_strategy": "no",
        "max_steps": 20,
        "learning_rate": 0.01,
        "include_num_input_tokens_seen": True,
        "use_cpu": True,
        "report_to": "none",
        "overwrite_cache": True,
    },
    callbacks=[Spoil()],
)
shutil.move("out/run/trainer_log.jsonl", "trainer_log.jsonl")
shutil.rmtree("out")
