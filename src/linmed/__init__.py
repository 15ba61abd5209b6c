"""Linear bandits whose every decision carries its exact probability."""

__version__ = "0.1.0"
