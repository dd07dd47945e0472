"""Writes this sample: ``python make.py`` with mlflow-skinny 3.17.2 and SQLAlchemy, in this directory."""

import math
import os
import sqlite3

os.environ["MLFLOW_ALLOW_FILE_STORE"] = "true"
os.environ["GIT_PYTHON_REFRESH"] = "quiet"

from mlflow.tracking import MlflowClient

for uri in ("sqlite:///mlflow.db", "file:mlruns"):
    client = MlflowClient(uri)
    experiment = client.create_experiment("demo", artifact_location="artifacts")
    run = client.create_run(experiment, run_name="first try", tags={"team": "a"})
    client.log_param(run.info.run_id, "lr", 0.001)
    client.log_param(run.info.run_id, "arch", "gpt")
    for step in range(20):
        client.log_metric(run.info.run_id, "train/loss", 2.0 / (step + 1), step=step)
        if step % 5 == 4:
            client.log_metric(run.info.run_id, "val.acc", step / 20, step=step)
    client.log_metric(run.info.run_id, "grad norm", math.nan, step=20)
    client.log_metric(run.info.run_id, "grad norm", math.inf, step=21)
    client.set_terminated(run.info.run_id, "FINISHED" if uri.startswith("sqlite") else "FAILED")
# A database has some sixty tables; the sample keeps those of runs.
with sqlite3.connect("mlflow.db") as database:
    kept = ("runs", "metrics", "params", "tags", "experiments", "latest_metrics")
    tables = [name for (name,) in database.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
    for name in tables:
        if name not in kept:
            database.execute(f"DROP TABLE '{name}'")
database.execute("VACUUM")
