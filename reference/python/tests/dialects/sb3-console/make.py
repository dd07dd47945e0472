"""Writes this sample: ``python make.py > console.txt`` with stable-baselines3 2.9.2."""

import sys

from stable_baselines3.common.logger import HumanOutputFormat, Logger

log = Logger(None, [HumanOutputFormat(sys.stdout)])
for number in (1, 2, 3):
    log.record("rollout/ep_len_mean", 20.5 * number)
    log.record("rollout/ep_rew_mean", -21.53 * number)
    log.record("time/fps", 1043)
    log.record("time/iterations", number)
    log.record("time/time_elapsed", 2 * number)
    log.record("time/total_timesteps", 2048 * number)
    if number > 1:
        log.record("train/approx_kl", 0.008123456)
        log.record("train/explained_variance", -0.00123)
        log.record("train/learning_rate", 0.0003)
        log.record("train/loss", 123456.789 / number)
        log.record("train/a_very_long_metric_name_that_is_cut_in_the_table", 1.0)
        log.record("plain", 7.5)
    log.dump(2048 * number)
log.record("eval/mean_reward", 200.0)
log.record("time/total_timesteps", 10000)
log.dump(10000)
