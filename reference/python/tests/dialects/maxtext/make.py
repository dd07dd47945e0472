"""Writes this sample and ../maxtext-console: ``python make.py`` with maxtext 0.2.5, jax 0.12.0.1 on Python 3.13.

MaxText trains a tiny model on random tokens on the CPU. The file is the one that it moves to a bucket every log_period
steps; without a bucket it stays where it is. The console also prints some hundred lines of settings, of which three are
kept here.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import maxtext.configs

OPTIONS = (
    "run_name=demo base_output_directory=out hardware=cpu skip_jax_distributed_system=true dataset_type=synthetic "
    "steps=6 eval_interval=3 eval_steps=2 log_period=6 gcs_metrics=true enable_checkpointing=false "
    "enable_tensorboard=false base_emb_dim=16 base_num_query_heads=2 base_num_kv_heads=2 base_mlp_dim=32 head_dim=8 "
    "base_num_decoder_layers=1 vocab_size=64 max_target_length=16 per_device_batch_size=2 attention=dot_product"
)

config = Path(maxtext.configs.__path__[0]) / "base.yml"
command = [sys.executable, "-m", "maxtext.trainers.pre_train.train", str(config), *OPTIONS.split()]
variables = os.environ | {"DECOUPLE_GCLOUD": "TRUE", "JAX_PLATFORMS": "cpu"}
console = subprocess.run(command, env=variables, stderr=subprocess.PIPE, text=True, check=True).stderr
lines = console.splitlines(keepends=True)
settings = [line for line in lines if "Config param " in line][:3]
metrics = [line for line in lines if "metric_logger.py:" in line]
Path("../maxtext-console/train.log").write_text("".join(settings + metrics), encoding="utf-8")
shutil.rmtree("out", ignore_errors=True)
