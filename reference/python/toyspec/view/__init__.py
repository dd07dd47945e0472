"""Runs for people to look at: the local server and the reports around the viewer app, and charts as files."""
