"""The one place where the version is written; the changelog's newest section names the same."""

__version__ = "0.1.0"
