"""The lock matrix: every writer holds a stream while every other one tries to write to it."""
