"""A scoring: a query is hard if its relevant documents share few of its words.

tune-cl train --plugin own_scoring.py --data docstrings --ranker knrm \
    --set curriculum.scoring=unshared_words --set curriculum.pacing=root
"""

import numpy as np

import tune_cl
from trainables.curriculum.scoring import Scored


@tune_cl.scoring("unshared_words", source="an example", needs=["relevance_level"])
def unshared_words(scored: Scored) -> np.ndarray:
    """Share of the query's words that no relevant document has."""
    data, split = scored.data, scored.split
    values = np.zeros(len(split))
    for i, query in enumerate(split.query.tolist()):
        words = set(data.query_text(query).split())
        rows = slice(split.offsets[i], split.offsets[i + 1])
        relevant = split.document[rows][split.grade[rows] >= scored.relevance_level]
        shared = {word for document in relevant.tolist() for word in data.documents[document].split()}
        values[i] = len(words - shared) / max(1, len(words))
    return scored.of_queries(values)
