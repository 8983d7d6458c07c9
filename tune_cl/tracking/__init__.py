"""The journal of a search, told to MLflow: late if it must be, but whole and once."""
