"""Synthetic data for tests: small, seeded, and learnable."""

from tune_cl.testing.tiny_data import tiny_data as tiny_data
