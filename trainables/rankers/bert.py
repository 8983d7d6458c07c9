"""Cross-encoders: a CrossEncoder of sentence-transformers reads query and document as one sequence.

`ranker.head: cls` is the Vanilla BERT of MacAvaney et al. (2020): a linear layer on the last layer's [CLS] vector.
`classification` is the sentence-pair classifier of Penha & Hauff (2020): [CLS] goes through the pooler (pretrained
where the encoder has one), and two classes come out. The score is then their log-odds z1 - z0, which orders as the
probability of class 1 does; under it the pointwise loss is the cross-entropy over the two classes, and pairwise
losses compare log-odds. `pretrained` is a CrossEncoder as it is: a sequence classifier, or a language model that
answers yes or no behind its chat template.

Long pairs are truncated token by token, from the longer text, or the document is cut into passages whose [CLS]
vectors are averaged (`ranker.passages: average`, MacAvaney et al.'s code). In data with queries of several utterances,
queries lose their first tokens (`ranker.keep: latest`), so that the utterance to be answered stays; Penha & Hauff drop
their last ones (`first`). Queries of other data, and documents, always lose their last tokens. Models with a chat
template are cut as the library cuts them.
"""

from __future__ import annotations

import copy
import inspect
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from sentence_transformers import CrossEncoder, SentenceTransformer
from sentence_transformers.base.modules import Dense, Transformer
from sentence_transformers.cross_encoder.modules import LogitScore
from sentence_transformers.sentence_transformer.modules import Pooling
from torch import Tensor, nn
from transformers import PreTrainedModel

from trainables.core.errors import ConfigError, Problem
from trainables.core.prose import say
from trainables.rankers.adapters import AdaptedModule
from trainables.rankers.fast.cpu import speed_up
from trainables.rankers.fast.packing import GROUP_COST, PACKED, cls_vectors, pack, pack_encoder, unpack_output, unpacked
from trainables.rankers.hub import MODULES, file_of, unusable
from trainables.rankers.library import first_position, loaded, saved, score_layer, tiny_transformer
from trainables.rankers.pretrained import (
    CHARACTERS,
    CLASSES,
    CONFIG,
    PAIRS,
    TOKENIZER,
    PretrainedRanker,
    files_of,
    longest_of,
    require_positions,
    texts_of,
)
from trainables.rankers.ranker import RankerModule, TextSide, Tokens
from trainables.rankers.settings import TINY, BertSettings
from trainables.rankers.text_pairs import PairTemplate, mean_of_passages

NEW = "is_new"  # attribute of layers whose weights were drawn


class BertModule(AdaptedModule):
    """Scores [B] or class logits [B, K] of pairs, by a CrossEncoder.

    Where the tokens of a pair follow from those of its texts, they are laid out here, and packed if only [CLS] is read
    of an encoder that can be; else the library tokenises pairs and pads them.
    """

    tolerates_bf16 = True

    def __init__(
        self, model: CrossEncoder, files: Mapping[str, str], settings: BertSettings, max_length: int, outputs: int
    ):
        super().__init__()
        self.model, self.settings, self.max_length, self.outputs = model, settings, max_length, outputs
        first = model[0]
        assert isinstance(first, Transformer)
        self.template = PairTemplate.from_json(files[PAIRS]) if TOKENIZER in files else None
        self.first_position = first_position(self.encoder)
        self.packs = self.template is not None and reads_cls_alone(model) and self.encoder.config.model_type in PACKED
        if self.packs:
            pack_encoder(self.encoder)
            if first.transformer_task == "sequence-classification":
                unpack_output(self.encoder)
        speed_up(self.encoder)
        if settings.checkpointing:
            save_activations(self.encoder, settings.model)
        self.dropout = nn.Dropout(settings.dropout)
        if first.transformer_task != "feature-extraction":
            layer = first.model.get_output_embeddings() or score_layer(first.model)
            layer.__class__ = ExactLinear
        self.has_segments = "token_type_ids" in inspect.signature(first.model.forward).parameters

    @property
    def encoder(self) -> PreTrainedModel:
        return self.model[0].model.base_model  # pyright: ignore[reportReturnType, reportAttributeAccessIssue]

    @property
    def score(self) -> nn.Linear:
        """The last layer."""
        return score_layer(self.model)

    @property
    def pooler(self) -> nn.Linear | None:
        """The layer between [CLS] and the last one, where the head is of this program's form."""
        layer = self.model[-2] if len(self.model) > 2 else None
        return layer.linear if isinstance(layer, Dense) else None

    def collate(
        self, queries: Tokens, documents: Tokens, query_rows: np.ndarray, document_rows: np.ndarray
    ) -> dict[str, Any]:
        """What the model reads, packed if it can be; with passages also `passages`, int64 [B]."""
        if self.template is None:
            pairs = list(zip(texts_of(queries, query_rows), texts_of(documents, document_rows), strict=True))
            self.model.max_seq_length = min(self.model.max_seq_length or self.max_length, self.max_length)
            prompt = self.model.prompts.get(self.model.default_prompt_name or "")
            return dict(self.model.preprocess(pairs, prompt=prompt))
        inputs = self.padded(queries, documents, query_rows, document_rows)
        if not self.packs:
            return unpacked(inputs)
        return pack(inputs, GROUP_COST[next(self.parameters()).device.type], self.first_position)

    def padded(
        self, queries: Tokens, documents: Tokens, query_rows: np.ndarray, document_rows: np.ndarray
    ) -> dict[str, Tensor]:
        """What an unpacked encoder reads: the output of `PairTemplate.assemble`."""
        assert self.template is not None
        most = self.settings.document_length if self.settings.passages == "average" else None
        inputs = self.template.assemble(queries, documents, query_rows, document_rows, self.max_length, most)
        if not self.has_segments:
            del inputs["token_type_ids"]
        return inputs

    def costs(
        self, queries: Tokens, documents: Tokens, query_rows: np.ndarray, document_rows: np.ndarray
    ) -> np.ndarray:
        """Tokens of the truncated pair, or of all its passages, special ones included; where the library tokenises,
        about as many."""
        lengths = queries.lengths[query_rows], documents.lengths[document_rows]
        if self.template is None:
            return np.minimum((lengths[0] + lengths[1]) // CHARACTERS + 1, self.max_length)
        if self.settings.passages == "average":
            lengths = lengths[0], np.minimum(lengths[1], self.settings.document_length)
            query, _, count = self.template.cut(*lengths, self.max_length)
            return lengths[1] + count * (query + self.template.specials)
        query, document = self.template.lengths(*lengths, self.max_length)
        return query + document + self.template.specials

    def forward(self, passages: Tensor | None = None, **features: Any) -> Tensor:
        layers: list[Any] = list(self.model)
        first, rest = layers[0], layers[1:]
        features = first(features)
        exact, given = next(first.parameters()).dtype, first.module_output_name
        # In bf16, scores would have 8 bits and tie.
        with torch.autocast(features[given].device.type, enabled=False):
            if self.packs and given == "token_embeddings":
                cls = cls_vectors(features[given], features["starts"], features["packed_index"])
                features[given] = cls[:, None]
            features[given] = features[given].to(exact)
            for module in rest:
                if module is rest[-1] and isinstance(module, Dense):
                    features[module.module_input_name] = self.dropout(features[module.module_input_name])
                features = module(features)
                if passages is not None and isinstance(module, Pooling):
                    features["sentence_embedding"] = mean_of_passages(features["sentence_embedding"], passages)
            scores = features["scores"]
            if self.outputs > 1:
                return scores
            return scores[:, 0] if scores.shape[1] == 1 else scores[:, 1] - scores[:, 0]

    def parameter_groups(self, lr: float) -> list[dict[str, Any]]:
        """Two groups: the layers that come with the model (its pooler too), and the new ones."""
        encoder = [parameter for parameter in self.encoder.parameters() if parameter.requires_grad]
        ids = {id(parameter) for parameter in self.encoder.parameters()}
        head = [parameter for parameter in self.model.parameters() if id(parameter) not in ids]
        new = [layer for layer in self.model if getattr(layer, NEW, False) and self.settings.head != "pretrained"]
        fresh = {id(parameter) for layer in new for parameter in layer.parameters()}
        own = [parameter for parameter in head if id(parameter) not in fresh]
        added = [parameter for parameter in head if id(parameter) in fresh]
        return [{"params": [*encoder, *own], "lr": lr}, {"params": added, "lr": self.settings.head_lr or lr}]


def reads_cls_alone(model: CrossEncoder) -> bool:
    """Whether a CrossEncoder reads no vector of its encoder but the first token's."""
    first = model[0]
    assert isinstance(first, Transformer)
    if first.transformer_task == "sequence-classification":
        return getattr(first.config, "classifier_pooling", "cls") == "cls"
    return len(model) > 1 and isinstance(model[1], Pooling) and model[1].pooling_mode == "cls"


def save_activations(encoder: PreTrainedModel, model: str) -> None:
    """Turns on gradient (activation) checkpointing by the encoder's own method."""
    if not encoder.supports_gradient_checkpointing:
        wrong = f"'{model}' cannot compute activations again"
        raise ConfigError(Problem("ranker.checkpointing", wrong, "false, or a smaller training.micro_batch"))
    encoder.activation_checkpointing_enable({"use_reentrant": False})


class ExactLinear(nn.Linear):
    """A scoring layer in the precision of its weights: in bf16, scores would have 8 bits and tie."""

    def forward(self, input: Tensor) -> Tensor:
        with torch.autocast(input.device.type, enabled=False):
            return super().forward(input.to(self.weight.dtype))


class Bert(PretrainedRanker):
    def files(self, settings: BertSettings, from_front: bool) -> dict[str, str]:
        if settings.head != "pretrained":
            return files_of(_encoder_of(settings.model), from_front, ("", ""), pairs=True)
        model = loaded(CrossEncoder, settings.model)
        if isinstance(model[-1], LogitScore) and file_of(settings.model, MODULES) is None:
            default = "without modules.json, it is asked as sentence-transformers asks, for yes or no"
            say(f"note: {settings.model}: {default}; ranker.prompt asks another question")
        return cross_encoder_files(model, settings, from_front)

    def build(self, text: TextSide, settings: BertSettings, max_length: int, outputs: int = 1) -> BertModule:
        """Raises ConfigError if the model reads fewer tokens than `max_length`, or has a head of another size."""
        require_positions(settings.model, longest_of(text.files), max_length)
        if settings.head == "pretrained":
            model = loaded(CrossEncoder, settings.model)
            with_prompt(model, settings)
            _require_labels(model, settings.model, json.loads(text.files.get(CLASSES, "[]")), outputs)
        else:
            tiny = settings.model == TINY
            first = tiny_transformer(json.loads(text.files[CONFIG]), text.files[TOKENIZER]) if tiny else None
            model = _with_new_head(first or _encoder_of(settings.model), settings, outputs)
        if settings.passages != "truncate" and not isinstance(model[-1], Dense):
            wrong = f"'average' is of [CLS] vectors, which the head of '{settings.model}' does not read alone"
            raise ConfigError(Problem("ranker.passages", wrong, "truncate, or ranker.head: cls"))
        module = BertModule(model, text.files, settings, max_length, outputs)
        module.add_adapters(module.encoder, settings.lora)
        module.freeze(module.encoder, settings.freeze)
        return module

    def write(
        self, module: RankerModule, files: Mapping[str, str], classes: Sequence[str], folder: Path
    ) -> dict[str, str]:
        """Writes the folder of a CrossEncoder, whose logits are the scores."""
        assert isinstance(module, BertModule)
        model = copy.deepcopy(module.model)
        config = model.config
        assert config is not None
        if classes:
            config.id2label = dict(enumerate(classes))
            config.label2id = {label: index for index, label in enumerate(classes)}
        elif module.score.out_features == 2:
            _leave_log_odds(model)
        model.activation_fn = nn.Identity()
        saved(model, module.max_length, folder, plain=TOKENIZER in files)
        return {name: files[name] for name in files if name != TOKENIZER}

    def open(
        self, folder: Path, files: dict[str, str], settings: BertSettings, max_length: int, outputs: int
    ) -> tuple[BertModule, dict[str, str]]:
        model = loaded(CrossEncoder, str(folder))
        files = cross_encoder_files(model, settings, False) | files
        settings = settings.model_copy(update={"checkpointing": False})
        return BertModule(model, files, settings, max_length, outputs), files


def _leave_log_odds(model: CrossEncoder) -> None:
    """Makes a head of two classes give z1 - z0 alone."""
    layer, last = score_layer(model), model[-1]
    for name, weight in list(layer.named_parameters()):
        setattr(layer, name, nn.Parameter((weight[1:] - weight[:1]).detach()))
    layer.out_features = 1
    if isinstance(last, Dense):
        last.out_features = 1
    else:
        model.config.num_labels = 1  # pyright: ignore[reportOptionalMemberAccess]


def cross_encoder_files(model: CrossEncoder, settings: BertSettings, from_front: bool) -> dict[str, str]:
    """Text files of a CrossEncoder."""
    first = model[0]
    if not isinstance(first, Transformer):
        raise unusable(settings.model, f"begins with a {type(first).__name__}", "a CrossEncoder over a Transformer")
    with_prompt(model, settings)
    prompt = model.prompts.get(model.default_prompt_name or "") or ""
    return files_of(first, from_front, (prompt, ""), pairs=True)


def with_prompt(model: CrossEncoder, settings: BertSettings) -> None:
    """Takes the prompt of the configuration, if it has one."""
    if settings.prompt is not None:
        model.prompts, model.default_prompt_name = {"query": settings.prompt}, "query"  # pyright: ignore[reportAttributeAccessIssue]


def _encoder_of(model: str) -> Transformer:
    first = loaded(SentenceTransformer, model)[0]
    if not isinstance(first, Transformer):
        wrong = f"begins with a {type(first).__name__}, which reads no pairs"
        raise unusable(model, wrong, "a Transformer, or ranker.name: bi_encoder")
    return first


def _with_new_head(first: Transformer, settings: BertSettings, outputs: int) -> CrossEncoder:
    """A CrossEncoder of [CLS], possibly a pooler, and a linear layer."""
    encoder = first.model
    size, std = encoder.config.hidden_size, getattr(encoder.config, "initializer_range", 0.02)
    brought = _pop_pooler(encoder)
    layers: list[Dense] = []
    two_classes = settings.head == "classification" and outputs == 1
    fresh: list[Dense] = []
    if settings.head == "classification" and brought is not None:
        with torch.random.fork_rng(devices=[]):
            pooler = Dense(size, size)
        pooler.linear.load_state_dict(brought.state_dict())
        layers.append(pooler)
    elif settings.head == "classification":
        layers.append(Dense(size, size))
        fresh.append(layers[0])
    score = Dense(size, 2 if two_classes else outputs, activation_function=nn.Identity(), module_output_name="scores")
    for layer in (score, *fresh):
        nn.init.normal_(layer.linear.weight, std=std)
        nn.init.zeros_(layer.linear.bias)
        setattr(layer, NEW, True)
    return CrossEncoder(modules=[first, Pooling(size, "cls"), *layers, score], device="cpu")


def _pop_pooler(encoder: Any) -> nn.Linear | None:
    """Removes the encoder's pooler and returns its layer, if it has one: unused, its weights would get no gradient."""
    pooler = getattr(encoder, "pooler", None)
    if pooler is None:
        return None
    encoder.register_module("pooler", nn.Identity())  # some encoders call it whether they have one or not
    layer = pooler if isinstance(pooler, nn.Linear) else getattr(pooler, "dense", None)
    return layer if isinstance(layer, nn.Linear) else None


def _require_labels(model: CrossEncoder, name: str, classes: Sequence[str], outputs: int) -> None:
    """Raises ConfigError for a head with another number of labels. Rows of classes are brought into the data's order,
    by their names."""
    right = "cls or classification: a new scoring layer"
    count = model.num_labels
    if count not in ((1, 2) if outputs == 1 else (outputs,)):
        wrong = f"'{name}' has {count} labels, not {'1 or 2' if outputs == 1 else outputs}"
        raise ConfigError(Problem("ranker.head", wrong, right))
    if outputs == 1:
        return
    names: Any = model.config.id2label  # pyright: ignore[reportOptionalMemberAccess]
    labels = [str(names[index]).lower() for index in range(count)]
    wanted = [label.lower() for label in classes]
    if sorted(labels) != sorted(wanted):
        wrong = f"the labels of '{name}' are {', '.join(labels)}, and the data's {', '.join(wanted)}"
        raise ConfigError(Problem("ranker.head", wrong, right))
    order = [labels.index(label) for label in wanted]
    layer = score_layer(model)
    with torch.no_grad():
        for weight in layer.parameters():
            weight.copy_(weight[order].clone())
