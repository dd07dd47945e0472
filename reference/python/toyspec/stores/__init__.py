"""Runs beyond this machine: object stores, the hub, and keeping both in step with a folder of runs."""
