"""Writes this sample: ``python make.py`` with ai2-olmo 0.6.0, wandb 0.31.0 and torch 2.15.0, in this directory.

OLMo trains a tiny model of random weights on the CPU and gives its metrics to W&B, which keeps them in a file of its
own; the program of W&B writes them as JSON. OLMo itself writes no file of metrics.
"""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29511", "RANK": "0", "WORLD_SIZE": "1", "LOCAL_RANK": "0"}
os.environ |= {"FS_LOCAL_RANK": "0", "LOCAL_WORLD_SIZE": "1", "WANDB_MODE": "offline", "WANDB_SILENT": "true"}

import numpy as np
import torch
import wandb
from olmo import config as c
from olmo.data import build_train_dataloader
from olmo.eval import build_evaluators
from olmo.model import OLMo
from olmo.optim import build_optimizer, build_scheduler
from olmo.torch_util import seed_all
from olmo.train import Trainer
from tokenizers import Tokenizer, models

torch.distributed.init_process_group("gloo")
os.makedirs("out/run")
(np.arange(4096) % 61).astype(np.uint16).tofile("out/few.npy")
Tokenizer(models.WordLevel({str(i): i for i in range(64)}, unk_token="0")).save("out/tokenizer.json")
loading = {"num_workers": 0, "drop_last": True, "pin_memory": False}
vocabulary = {"vocab_size": 64, "embedding_size": 64, "eos_token_id": 0, "pad_token_id": 0}
few = c.DataConfig(datasets={"few": ["out/few.npy"]}, **loading)
cfg = c.TrainConfig(
    seed=7,
    model=c.ModelConfig(d_model=16, n_heads=2, n_layers=1, max_sequence_length=16, init_device="cpu", **vocabulary),
    tokenizer=c.TokenizerConfig(identifier="out/tokenizer.json"),
    optimizer=c.OptimizerConfig(name=c.OptimizerType.adamw, learning_rate=0.01, metrics_log_interval=1000),
    scheduler=c.SchedulerConfig(name=c.SchedulerType.cosine_with_warmup, t_warmup=2),
    data=c.DataConfig(paths=["out/few.npy"], **loading),
    evaluators=[c.EvaluatorConfig(label="few", type=c.EvaluatorType.lm, subset_num_batches=2, data=few)],
    eval_interval=10,
    save_folder="out/run",
    save_interval=None,
    save_num_checkpoints_to_keep=0,
    max_duration=20,
    stop_at=20,
    global_train_batch_size=4,
    device_train_batch_size=4,
    device_train_microbatch_size=4,
    device_train_grad_accum=1,
    device_eval_batch_size=4,
    precision="fp32",
    max_grad_norm=1.0,
    wandb=c.WandbConfig(log_interval=5),
    distributed_strategy=c.DistributedStrategy.ddp,
    ddp=c.DDPConfig(),
)
seed_all(7)
loader = build_train_dataloader(cfg)
model = OLMo(cfg.model)
wrapped = torch.nn.parallel.DistributedDataParallel(model)
optimizer = build_optimizer(cfg, wrapped)
wandb.init(project="demo", dir="out", settings=wandb.Settings(host="host", disable_git=True, console="off"))
evaluators = build_evaluators(cfg, torch.device("cpu"))
scheduler = build_scheduler(cfg)
Trainer(cfg, model, wrapped, optimizer, scheduler, loader, torch.device("cpu"), evaluators, epoch=0).fit()
wandb.finish()
command = [str(Path(sys.executable).with_name("wandb")), "leet", "inspect", "--json", "out/wandb/latest-run"]
records = map(json.loads, subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout.splitlines())
rows = [record["history"]["item"] for record in records if record["type"] == "history"]
Path("metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
shutil.rmtree("out")
