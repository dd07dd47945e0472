"""Mutates the Python package at random places and measures whether its tests notice: `make mutants-python`.

The tests run once in a copy of the tree whose functions leave marks, so that it is known which test executes which
function. A mutant is one small change in such a copy. The tests that execute the changed function run until one fails;
if none does, those that execute anything of its module. The seed is the digest of the commit: each commit asks others.
"""
