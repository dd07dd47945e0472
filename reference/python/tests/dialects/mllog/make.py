"""Writes this sample: ``python make.py > result_0.txt`` with mlperf-logging 4.1.68, in this directory."""

import math
import os
import sys

from mlperf_logging import mllog

mllog.config(root_dir=os.path.dirname(os.path.abspath(__file__)))
logger = mllog.get_mllogger()
for values in ([math.nan, math.nan], [0.6, 0.7, 0.8]):
    logger.start("init_start", None)
    sys.stdout.write("some other output of the job\n")
    logger.event("global_batch_size", 256)
    logger.end("init_stop", None)
    logger.start("run_start", None)
    for epoch, value in enumerate(values, 1):
        logger.event("eval_accuracy", value, metadata={"epoch_num": epoch})
    if len(values) == 3:
        logger.end("run_stop", None, metadata={"status": "success"})
