"""Answers for programs: what a person would say about runs, exact, in a given number of tokens."""
