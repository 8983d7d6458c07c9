"""Synthetic data for tests: small, seeded, and learnable."""

from tune_cl.testing.data import tiny_data as tiny_data
