"""Deliberately wrong implementations: each is the oracle with one thing changed, and the corpus has to tell it.

The docstring of a mutant says what is wrong with it. What proves that it is wrong stands beside it in a list.
"""
