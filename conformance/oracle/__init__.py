"""A small, slow and correct implementation of every role. It needs only the standard library and the schemas.

It reads the output of writers, gives the expected offset of each finding, and is the base of the mutants:
each mutant overrides one method. It is written for comparison with the specification, not for use.
"""
