"""The lock matrix: every writer locks a stream while every other one tries to write to it."""
