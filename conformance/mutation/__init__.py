"""Mutates the oracle automatically and measures whether the corpus notices: `nox -s mutants`.

Every mutant is the oracle with one small change: a comparison, a constant, a statement less. It is asked the
questions of the corpus that execute the changed statement, until one fails. A mutant that answers all of them right
survives: either the corpus lacks a case, or the change cannot be seen, which `survivors.json` says with the reason.
"""
