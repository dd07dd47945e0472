"""Writes this sample: ``python make.py`` with aim 3.29.1, in this directory."""

import math
import os
import shutil
import sqlite3

from aim import Run

run = Run(experiment="demo", system_tracking_interval=None, capture_terminal_logs=False, log_system_params=False)
run.name = "first try"
run.description = "with warm-up"
run.add_tag("small")
run["hparams"] = {"lr": 0.001, "layers": 2}
for step in range(4):
    run.track(2.0 / (step + 1), name="loss", step=step, epoch=step // 2, context={"subset": "train"})
run.track(math.nan, name="acc", step=3, context={"subset": "val"})
run.close()
# A repository has some 260 kB; the sample keeps what a reader of this run needs, which builds the index again.
shutil.rmtree(".aim/meta/index")
shutil.rmtree(".aim/check_ins")
for folder, _, names in os.walk(".aim"):
    for name in names:
        path = os.path.join(folder, name)
        if name.startswith(("LOG", "LOCK", "OPTIONS-")) or (name.endswith(".log") and not os.path.getsize(path)):
            os.remove(path)
with sqlite3.connect(".aim/run_metadata.sqlite") as database:
    for table in ("note", "note_audit_log", "run_info"):
        database.execute(f"DROP TABLE {table}")
    database.execute("PRAGMA page_size = 512")
    database.execute("VACUUM")
