"""The library's version, as in pyproject.toml; a constant, because importlib.metadata is slow to import."""

__version__ = "0.1.0"
