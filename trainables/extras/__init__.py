"""What the core does not need: LambdaMART with its data and subsets, the ranker bidaf_t, readers of
published data. It is written against the interface of docs/how-to/own-parts.md; the core names it in registries alone
(`Later`), which tests/test_layers.py checks."""
