"""A WordPiece vocabulary of the training texts, for the model `tiny`, and the tokens of whole texts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import islice

import numpy as np
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

from trainables.data.columns import RankingData, required_split
from trainables.rankers.ranker import Tokens

CHUNK = 8192  # texts handed to the tokenizer's threads at a time
SPECIALS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
PAD = SPECIALS.index("[PAD]")
_NORMALIZER = normalizers.BertNormalizer(lowercase=True)


def train_wordpiece(texts: Iterable[str], size: int) -> Tokenizer:
    """Lower-casing WordPiece tokenizer of at most `size` entries in BERT's pair format; deterministic."""
    texts = list(texts)
    alphabet = _alphabet(texts, size // 4)
    trainer = trainers.WordPieceTrainer(
        vocab_size=size,
        initial_alphabet=alphabet,
        limit_alphabet=len(alphabet),
        # Otherwise the trainer numbers these in an order that differs from run to run, and it breaks ties by number.
        special_tokens=[*SPECIALS, *(f"##{character}" for character in alphabet)],
        show_progress=False,
    )
    learner = _wordpiece({})
    learner.train_from_iterator(texts, trainer)
    return _wordpiece(learner.get_vocab())


def _alphabet(texts: Iterable[str], size: int) -> list[str]:
    """The `size` most frequent characters, sorted; ties go to the first in that order."""
    counts = Counter[str]()
    for text in texts:
        counts.update(_NORMALIZER.normalize_str(text))
    visible = sorted((-count, character) for character, count in counts.items() if not character.isspace())
    return sorted(character for _, character in visible[:size])


def _wordpiece(vocabulary: dict[str, int]) -> Tokenizer:
    tokenizer = Tokenizer(models.WordPiece(vocabulary, unk_token="[UNK]"))
    tokenizer.normalizer = _NORMALIZER
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.decoder = decoders.WordPiece()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]",
        pair="[CLS] $A [SEP] $B:1 [SEP]:1",
        special_tokens=[(token, SPECIALS.index(token)) for token in ("[CLS]", "[SEP]")],
    )
    return tokenizer


def training_texts(data: RankingData) -> Iterator[str]:
    """Queries and candidate documents of the training split, each once."""
    train = required_split(data, "train")
    yield from (data.query_text(int(query)) for query in np.unique(train.query))
    yield from (str(data.documents[int(document)]) for document in np.unique(train.document))


def encode_texts(tokenizer: Tokenizer, texts: Iterable[str]) -> Tokens:
    """Token ids of whole texts, without special tokens; `[SEP]` and the like in a text are ordinary words."""
    tokenizer.encode_special_tokens = True
    texts, ids, lengths = iter(texts), [np.empty(0, np.int32)], [np.zeros(1, np.int64)]
    while chunk := list(islice(texts, CHUNK)):
        rows = [encoding.ids for encoding in tokenizer.encode_batch_fast(chunk, add_special_tokens=False)]
        lengths.append(np.fromiter(map(len, rows), np.int64, len(rows)))
        ids.append(np.fromiter((i for row in rows for i in row), np.int32, int(lengths[-1].sum())))
    return Tokens(np.concatenate(ids), np.cumsum(np.concatenate(lengths)))
