"""Compiled numerics. Every function works on plain arrays and knows nothing of policies."""
