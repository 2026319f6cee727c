"""The decisions: one query, a chain of providers, an honest answer."""

__version__ = "0.1.0"
