"""Deliberately wrong implementations: each is the oracle with one thing changed, and the corpus has to catch it.

The docstring of a mutant says what is wrong with it. A list names the statement that it breaks.
"""
