"""Spreads work over threads, processes or what has the protocol ``Workers``, with the results of one process."""
