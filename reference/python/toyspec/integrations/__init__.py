"""Logs from frameworks: each module is the callback or logger of one, and is imported only when it is used.

A run gets its settings, command line, packages, revision and devices without asking, and no secret. The log never
stops a training. All take the options of ``toyspec.integrations.training_run.RunOptions``.
"""
