"""Engines: settings become a container description, metrics become queries. An engine knows no cloud.

To add one: one module here with `container()`, its settings in the `engine` union of the input, and its facts
under `data/`, taken from its own release.

Trap: the input imports the settings from here, so nothing in this package may import the input at run time.
"""
