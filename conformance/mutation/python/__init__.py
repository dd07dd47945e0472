"""Mutates the Python package at random places and measures whether its tests notice: `nox -s mutants_python`.

The tests run once in a copy of the tree whose statements leave marks, so that it is known which test executes which
statement. A mutant is one small change in such a copy. The tests that execute the changed statement run until one
fails, those first that execute little else. The seed is the digest of the commit: each commit asks others.
"""
