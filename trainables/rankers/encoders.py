"""Hugging Face encoders: configuration, tokenizer, positions and weights."""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import torch
import transformers
from safetensors import SafetensorError, safe_open
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers
from torch import nn
from transformers import PretrainedConfig, PreTrainedModel
from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING_NAMES as CAUSAL
from transformers.models.auto.modeling_auto import MODEL_FOR_MASKED_LM_MAPPING_NAMES as MASKED
from transformers.utils.hub import extract_commit_hash

from trainables.core.cache import digest_of
from trainables.core.errors import ConfigError, Problem
from trainables.core.files import read_text
from trainables.core.hub import hub_answers, hub_out_of_reach
from trainables.data.columns import RankingData, required_split
from trainables.rankers.hub import ADAPTER, FIRST, cached_file_of, missing, unusable
from trainables.rankers.ranker import Tokens
from trainables.rankers.settings import ENCODERS, TINY

IMPLEMENTATIONS = {  # those that an encoder's configuration may ask for
    "attn_implementation": (None, "eager", "sdpa"),
    "experts_implementation": (None, "eager", "grouped_mm", "batched_mm"),
}
COUNTS = re.compile(r"(?:^|_)(layer|head|label)s?$")  # keys of a configuration that count these
NAMES = ("_name_or_path", "auto_map", "transformers_version")
ENCODER_ALONE = {"t5": "T5EncoderModel", "mt5": "MT5EncoderModel", "umt5": "UMT5EncoderModel"}
WHOLE_ATTENTION = {"big_bird": {"attention_type": "original_full"}}  # else the longest text of a batch decides
DERIVED = {"funnel": ("num_hidden_layers", "num_blocks")}  # written by transformers, and not taken
PADDING_READ = {"funnel", "convbert", "fnet", "mobilebert", "nystromformer"}  # padding changes their scores
SLACK = 2  # of the weights that a model is made with, a folder may lack some, such as a pooler's
READ = (".safetensors", ".json", ".txt", ".model")  # files of weights, tokenizers and configurations


def tiny_config(vocabulary: int) -> PretrainedConfig:
    """A new BERT of 2 layers, 128 wide."""
    return transformers.BertConfig(
        vocab_size=vocabulary, hidden_size=128, num_hidden_layers=2, num_attention_heads=2, intermediate_size=512
    )


def read_encoder(
    model: str, cls: bool = True, lower: bool = False
) -> tuple[PretrainedConfig, transformers.PreTrainedTokenizerFast]:
    """Configuration and tokenizer of an encoder. `cls`: whether texts must begin with its [CLS] token; else it may also
    be a language model, or the encoder of T5. `lower`: whether texts are brought to lower case first. Raises
    ConfigError if they cannot be used."""
    config, tokenizer = read_model(model)
    if not hasattr(config, "hidden_size") or (config.is_encoder_decoder and (cls or not encoder_alone(config))):
        raise unusable(model, "is not an encoder")
    if tokenizer.pad_token_id is None and not cls and tokenizer.eos_token is not None:
        tokenizer.pad_token = tokenizer.eos_token  # which stands for padding nowhere else, since texts are masked
    if cls and tokenizer.cls_token_id is None and is_decoder(config.model_type):
        raise _no_encoder(model, config)
    if tokenizer.pad_token_id is None or (cls and tokenizer.cls_token_id is None):
        raise unusable(model, f"has no fast tokenizer with a {'[CLS] and a ' if cls else ''}padding token")
    if cls:
        first = tokenizer.convert_tokens_to_ids(str(tokenizer.cls_token))
        _require_cls_first(model, tokenizer.backend_tokenizer, first)
        if is_decoder(config.model_type):
            raise _no_encoder(model, config)
    if lower:
        _lower(tokenizer.backend_tokenizer)
    return config, tokenizer


def encoder_alone(config: PretrainedConfig) -> Any:
    """The class of an encoder-decoder's encoder; None where there is none."""
    name = ENCODER_ALONE.get(config.model_type)
    return getattr(transformers, name) if name else None


def _lower(tokenizer: Tokenizer) -> None:
    """Puts lower case before all that the tokenizer does, unless it does that itself, as sentence-transformers does."""
    given = tokenizer.normalizer
    parts = [] if given is None else [*given] if isinstance(given, normalizers.Sequence) else [given]  # pyright: ignore[reportArgumentType]
    if not any(isinstance(part, normalizers.Lowercase) or getattr(part, "lowercase", False) for part in parts):
        tokenizer.normalizer = normalizers.Sequence([normalizers.Lowercase(), *parts])  # pyright: ignore[reportArgumentType]


def read_model(model: str, right: str = ENCODERS) -> tuple[PretrainedConfig, transformers.PreTrainedTokenizerFast]:
    """Configuration and tokenizer of a folder or hub name. Raises ConfigError if they cannot be read, or if the
    tokenizer is not a fast one. `right`: what the model should be."""
    if Path(model).is_dir() and (wrong := _oversized(Path(model))):
        raise unusable(model, wrong, right)
    config = _load(transformers.AutoConfig, model, right)
    _require_own_kernels(model, config)
    if config.model_type in PADDING_READ:
        raise unusable(model, f"({config.model_type}) gives a text another score beside longer ones", right)
    tokenizer = _load(transformers.AutoTokenizer, model, right, use_fast=True)
    if not tokenizer.is_fast:
        raise unusable(model, "has no fast tokenizer", right)
    tokenizer.backend_tokenizer.no_truncation()
    tokenizer.backend_tokenizer.no_padding()
    return config, tokenizer


def _oversized(folder: Path) -> str | None:
    """What `misfit` says of a model's folder; None also for one that lacks a file, which whoever loads it says."""
    files = sorted(folder.glob("*.safetensors"))
    if not files or not (folder / "config.json").is_file():
        return None
    shapes: list[Sequence[int]] = []
    try:
        fields = json.loads(read_text(folder / "config.json"))
        for path in files:
            with safe_open(path, "np") as tensors:
                shapes += [tensors.get_slice(name).get_shape() for name in tensors.keys()]  # noqa: SIM118 - no mapping
    except (ValueError, RecursionError, SafetensorError) as error:
        return f"cannot be read ({str(error)[:200]})"
    return misfit(fields, shapes)


def misfit(fields: Any, shapes: Sequence[Sequence[int]]) -> str | None:
    """What of a configuration does not fit weights of these shapes, or None. To be asked before anything of that size
    is made; only what a stranger wrote can be so."""
    if not isinstance(fields, dict):
        return "has a config.json that is not a mapping"
    longest = max((size for shape in shapes for size in shape), default=0)
    most = {"layer": len(shapes), "head": longest, "label": longest}
    for key, value in fields.items():
        counted = COUNTS.search(key)
        if counted is None or value is None or key.startswith("max_"):  # a limit is not a size
            continue
        limit = most[counted[1]]
        if isinstance(value, list | dict):  # such as the heads that are pruned in each layer
            continue
        if not isinstance(value, int) or not 0 <= value <= limit:
            return f"says {key} {str(value)[:40]}, and its weights hold no more than {limit:,}"
    held = sum(math.prod(shape) for shape in shapes)
    try:
        config = _config_of({key: value for key, value in fields.items() if key not in NAMES})
        made = sum(parameter.numel() for parameter in _empty(config).parameters())
    except ConfigError:  # of other kernels: whoever loads it says so
        return None
    except Exception as error:  # noqa: BLE001 - whatever the library makes of sizes that make no sense
        return f"has a config.json of which no model can be made ({type(error).__name__}: {str(error)[:100]})"
    return f"describes {made:,} weights, and holds {held:,}" if made > SLACK * held else None


def is_decoder(model_type: str) -> bool:
    """Whether no token of an architecture reads later ones: it is known as a language model only."""
    return model_type in CAUSAL and model_type not in MASKED


def _no_encoder(model: str, config: PretrainedConfig) -> ConfigError:
    wrong = f"'{model}' is a decoder ({config.model_type}), in which no first token can stand for a pair"
    return ConfigError(Problem("ranker.model", wrong, "an encoder, or ranker.name: decoder"))


def _require_cls_first(model: str, tokenizer: Tokenizer, cls: int | list[int]) -> None:
    ids = tokenizer.encode("a", "a").ids
    if ids[0] == cls:
        return
    if ids[-1] == cls:
        raise unusable(model, "ends a pair with its [CLS] token, as XLNet does")
    raise unusable(model, "does not begin a pair with its [CLS] token")


def positions(config: PretrainedConfig, otherwise: int) -> int:
    """Most tokens that the encoder can read."""
    encoder = _empty(config)
    if (table := _position_table(encoder)) is not None:
        return table.num_embeddings - first_position(encoder)
    return getattr(config, "max_position_embeddings", otherwise)


def _empty(config: PretrainedConfig, kind: Any = transformers.AutoModel) -> PreTrainedModel:
    with torch.device("meta"), hub_out_of_reach():
        return _made(config, kind)


def _made(config: PretrainedConfig, kind: Any, **options: Any) -> PreTrainedModel:
    """A model from its configuration. Of an encoder-decoder whose decoder is left out, the encoder."""
    alone = encoder_alone(config) if kind is transformers.AutoModel else None
    return kind.from_config(config, **options) if alone is None else alone(config)


def empty_encoder(fields: dict[str, Any], kind: Any = transformers.AutoModel) -> PreTrainedModel:
    """An encoder from its configuration's fields, or another `kind` of model, without numbers, and without the pooler
    that ours lacks."""
    encoder = _empty(_config_of(fields), kind)
    pop_pooler(encoder)
    return encoder


def first_position(encoder: PreTrainedModel) -> int:
    """The first token's row in the position table: RoBERTa and its kin reserve the rows before it for padding."""
    table = _position_table(encoder)
    return 0 if table is None or table.padding_idx is None else table.padding_idx + 1


def _position_table(encoder: PreTrainedModel) -> nn.Embedding | None:
    table = getattr(getattr(encoder, "embeddings", None), "position_embeddings", None)
    return table if isinstance(table, nn.Embedding) else None


def new_encoder(fields: dict[str, Any], kind: Any = transformers.AutoModel) -> PreTrainedModel:
    """An encoder with random weights from its configuration's fields, or another `kind` of model."""
    with hub_out_of_reach():
        return _made(_config_of(fields), kind, dtype=torch.float32)


def _config_of(fields: Mapping[str, Any]) -> PretrainedConfig:
    derived = DERIVED.get(str(fields["model_type"]), ())
    fields = {key: value for key, value in fields.items() if key not in derived}
    config = transformers.AutoConfig.for_model(fields.pop("model_type"), **fields)
    _require_own_kernels(config.model_type, config)
    return config


def pretrained_encoder(
    model: str, kind: Any = transformers.AutoModel, brought: Collection[str] = (), **options: Any
) -> PreTrainedModel:
    """An encoder, or another `kind` of model, with weights from a folder or the hub: only from safetensors, and without
    running code from there. Raises ConfigError if the files lack weights of it, but for a pooler and for those that the
    caller has (`brought`: their names)."""
    config = _load(transformers.AutoConfig, model)
    bare = kind is transformers.AutoModel
    if bare:
        kind = encoder_alone(config) or kind
    whole = WHOLE_ATTENTION.get(config.model_type, {})
    options |= {"dtype": torch.float32, "use_safetensors": True, "output_loading_info": True}
    encoder, found = _load(kind, model, **whole, **options)
    lacking = found["missing_keys"].difference(brought)
    if bare:  # what is made of the encoder has no use for its pooler, or trains a new one
        lacking = {name for name in lacking if not name.startswith("pooler.")}
    if lacking:
        raise _incomplete(model, encoder, kind, lacking)
    return encoder


def _incomplete(model: str, whole: PreTrainedModel, kind: Any, lacking: Collection[str]) -> ConfigError:
    """The error of files that lack weights, which transformers would draw at random."""
    names = list(whole.state_dict())
    first = next(name for name in names if name in lacking)
    wrong = f"lacks {len(lacking)} of its {len(names)} weights (first: {first})"
    if getattr(whole.config, "auto_map", None):
        return unusable(model, f"{wrong}, and needs code of its own (auto_map)", "a model of transformers' own classes")
    right = "a folder with all weights, under the names that transformers gives them"
    if kind is transformers.AutoModelForSequenceClassification and not is_decoder(whole.config.model_type):
        below = f"{whole.base_model_prefix}."
        if all("pooler" in name or not name.startswith(below) for name in lacking):
            right = "ranker.head: cls or classification, a new scoring layer to be trained"
    return unusable(model, wrong, right)


def encoder_version(model: str) -> str | None:
    """What now goes by an encoder's name: the digest of the files that are read of a folder, or "commit HASH" of a hub
    name, as transformers' cache knows it. None where it does not, and of `tiny`, which the data decides."""
    if model == TINY:
        return None
    if (folder := Path(model)).is_dir():
        paths = sorted([*folder.iterdir(), *folder.glob("*_StaticEmbedding/*")])
        return digest_of({str(path.relative_to(folder)): path for path in paths if path.suffix in READ})
    for name in FIRST:
        if (file := cached_file_of(model, name)) is not None:
            return f"commit {commit}" if (commit := extract_commit_hash(str(file), None)) else None
    return None


def pop_pooler(encoder: PreTrainedModel) -> nn.Linear | None:
    """Removes the encoder's pooler and returns its layer, if it has one: unused, its weights would get no gradient."""
    pooler = getattr(encoder, "pooler", None)
    if pooler is None:
        return None
    encoder.register_module("pooler", nn.Identity())  # some encoders call it whether they have one or not
    layer = pooler if isinstance(pooler, nn.Linear) else getattr(pooler, "dense", None)
    return layer if isinstance(layer, nn.Linear) else None


def _load(kind: Any, model: str, right: str = ENCODERS, **options: Any) -> Any:
    transformers.logging.disable_progress_bar()
    folder = Path(model).is_dir()
    if model.startswith(("/", ".", "~")) and not folder:
        raise unusable(model, "is not a folder", right)
    if folder and Path(model, ADAPTER).exists():  # whose base model, by its name, transformers would fetch
        raise unusable(model, f"holds {ADAPTER}, not a model's own weights", right)
    online = not folder and hub_answers()
    try:
        with nullcontext() if online else hub_out_of_reach():
            return kind.from_pretrained(model, trust_remote_code=False, **options)
    except (OSError, ValueError, ImportError, KeyError) as error:
        if not folder and not online:
            raise missing(model, right) from error
        raise unusable(model, f"cannot be loaded ({str(error).splitlines()[0]})", right) from error


def _require_own_kernels(model: str, config: PretrainedConfig) -> None:
    """Raises ConfigError for other implementations than PyTorch's: transformers takes `org/x` for code on the hub, and
    some names too."""
    subconfigs = [getattr(config, name, None) for name in config.sub_configs]
    for part in [config, *(part for part in subconfigs if part is not None)]:
        for key, own in IMPLEMENTATIONS.items():
            asked = getattr(part, f"_{key}", None)
            if asked not in own:
                right = f"leave {key} out of its config.json"
                raise ConfigError(Problem("ranker.model", f"'{model}' asks for {key} {str(asked)[:80]!r}", right))


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


def files_identity(folder: Path) -> list[object]:
    """What identifies the files in a folder without reading them; nothing for what is not a folder, as a hub name."""
    paths = sorted(folder.iterdir()) if folder.is_dir() else []
    return [[path.name, path.stat().st_size, path.stat().st_mtime_ns] for path in paths]
