"""Trials under load, with numbers: `make chaos`. Not part of the suite: they take minutes, and some measure time."""
