"""Readers of published forms of data."""
