"""Parts that the core does not need: LambdaMART with its data. They are written against the names of
docs/how-to/own-parts.md, and only registries name them (`Later`); `tests/test_layers.py` holds that."""
