"""A small, slow and right implementation of every role, of the standard library and the schemas alone.

It reads what writers wrote, tells at which byte a finding has to be, and is what the mutants are made of:
each of them changes one thing in it. It is written to be compared with the specification, not to be used.
"""
