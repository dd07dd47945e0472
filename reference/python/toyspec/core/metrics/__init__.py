"""The profile metrics/v1: its log, read and written by one object."""
