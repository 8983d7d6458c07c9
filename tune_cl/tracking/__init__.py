"""Sends the journal of a search to MLflow: late if need be, but completely and only once."""
