"""Sends runs to repositories and buckets of Hugging Face, and fetches them, with the rules of sync.

A push compares, stages what is missing, and makes commits of it that fail where the repository has changed meanwhile. A
pull fetches into a folder beside the target, and continues the logs there.
"""
