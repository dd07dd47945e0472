"""Cases that prove an implementation right or wrong, and what finds, expands and compares them.

Nothing here imports an implementation. Only the standard library is needed.
"""
