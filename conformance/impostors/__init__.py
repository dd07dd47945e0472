"""Deliberately wrong implementations: each is the miniature with one thing changed, and the corpus has to tell it.

The docstring of an impostor says what is wrong with it. What proves that it is wrong stands beside it in a list.
"""
