"""Cross-encoders: a Transformer encoder reads query and document as one sequence.

`ranker.head: cls` is the Vanilla BERT of MacAvaney et al. (2020): a linear layer on the last layer's [CLS] vector.
`classification` is the sentence-pair classifier of Penha & Hauff (2020): [CLS] goes through the pooler (pretrained
where the encoder has one), and two classes come out. The score is then their log-odds z1 - z0, which orders as the
probability of class 1 does; under it the pointwise loss is the cross-entropy over the two classes, and pairwise
losses compare log-odds.

Long pairs are truncated token by token, from the longer text, or the document is cut into passages whose [CLS]
vectors are averaged (`ranker.passages: average`, MacAvaney et al.'s code). In data with queries of several utterances,
queries lose their first tokens (`ranker.keep: latest`), so that the utterance to be answered stays; Penha & Hauff drop
their last ones (`first`). Queries of other data, and documents, always lose their last tokens.
"""

from __future__ import annotations

import inspect
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from tokenizers import Tokenizer
from torch import Tensor, nn
from transformers import AutoModelForSequenceClassification, PretrainedConfig, PreTrainedModel

from trainables.core.cache import digest_of
from trainables.core.errors import ConfigError, Problem
from trainables.data.columns import RankingData
from trainables.rankers.adapters import AdaptedModule, decayed_groups, require_changes
from trainables.rankers.classifier_folder import CONFIG, PAIRS, TOKENIZER, read_classifier, write_classifier
from trainables.rankers.classifier_heads import (
    LAYOUTS,
    OURS,
    TANH,
    HeadLayers,
    activation_of,
    classifier_problem,
    is_linear,
    layers_of,
    stays_linear,
    written,
)
from trainables.rankers.encoders import (
    PAD,
    empty_encoder,
    encode_texts,
    files_identity,
    first_position,
    new_encoder,
    pop_pooler,
    positions,
    pretrained_encoder,
    read_encoder,
    tiny_config,
    train_wordpiece,
    training_texts,
)
from trainables.rankers.fast.cpu import speed_up
from trainables.rankers.fast.packing import GROUP_COST, PACKED, cls_vectors, pack, pack_encoder
from trainables.rankers.ranker import Head, Ranker, RankerModule, TextSide, Tokens
from trainables.rankers.settings import TINY, BertSettings
from trainables.rankers.text_pairs import PairTemplate, cached_text_side, keeps_latest, mean_of_passages


class BertModule(AdaptedModule):
    """Scores [B] or class logits [B, K] of pairs.

    `encoder`: a transformers encoder, as loaded. It reads sequences whose first token is [CLS]: one per pair, or one
    per passage; then `passages`, int64 [B], counts those of each pair.
    """

    tolerates_bf16 = True

    def __init__(
        self,
        encoder: PreTrainedModel,
        template: PairTemplate,
        settings: BertSettings,
        max_length: int,
        outputs: int = 1,
        head: HeadLayers | None = None,
    ):
        super().__init__()
        self.template, self.settings, self.max_length = template, settings, max_length
        self.encoder, pooler = encoder, pop_pooler(encoder)
        self.first_position = first_position(encoder)
        self.packs = encoder.config.model_type in PACKED
        if self.packs:
            pack_encoder(encoder)
        speed_up(encoder)
        if settings.checkpointing:
            save_activations(encoder, settings.model)
        self.dropout = nn.Dropout(settings.dropout)
        self.activation_name, self.norm = TANH, None
        if head is None:
            self._new_head(pooler, outputs)
        else:
            self._take_head(head, outputs)
        self.has_segments = "token_type_ids" in inspect.signature(encoder.forward).parameters

    def _new_head(self, pooler: nn.Linear | None, outputs: int) -> None:
        config, classifies = self.encoder.config, self.settings.head == "classification"
        size = config.hidden_size
        self.two_classes = classifies and outputs == 1
        self.has_own_pooler = classifies and pooler is None
        self.pooler = (pooler or nn.Linear(size, size)) if classifies else None
        self.score = Head(size, 2 if self.two_classes else outputs)
        for layer in (self.score, self.pooler if self.has_own_pooler else None):
            if layer is not None:
                nn.init.normal_(layer.weight, std=getattr(config, "initializer_range", 0.02))
                nn.init.zeros_(layer.bias)

    def _take_head(self, head: HeadLayers, outputs: int) -> None:
        self.pooler, self.activation_name, self.norm = head.dense, head.activation, head.norm
        self.two_classes = outputs == 1 and head.score.out_features == 2
        self.has_own_pooler = False
        self.score = Head(head.score.in_features, head.score.out_features)
        self.score.load_state_dict(head.score.state_dict())

    def head_layers(self) -> HeadLayers:
        """The head with one output a score or class: that of two classes as its log-odds, z1 - z0."""
        score: nn.Linear = self.score
        if self.two_classes:
            score = nn.Linear(score.in_features, 1)
            with torch.no_grad():
                score.weight.copy_(self.score.weight[1:] - self.score.weight[:1])
                score.bias.copy_(self.score.bias[1:] - self.score.bias[:1])
        return HeadLayers(self.pooler, self.activation_name, self.norm, score)

    def collate(
        self, queries: Tokens, documents: Tokens, query_rows: np.ndarray, document_rows: np.ndarray
    ) -> dict[str, Any]:
        """What the encoder reads, packed if it can be; with passages also `passages`, int64 [B]."""
        inputs = self.padded(queries, documents, query_rows, document_rows)
        if not self.packs:
            return inputs
        return pack(inputs, GROUP_COST[self.score.weight.device.type], self.first_position)

    def padded(
        self, queries: Tokens, documents: Tokens, query_rows: np.ndarray, document_rows: np.ndarray
    ) -> dict[str, Tensor]:
        """What an unpacked encoder reads: the output of `PairTemplate.assemble`."""
        most = self.settings.document_length if self.settings.passages == "average" else None
        inputs = self.template.assemble(queries, documents, query_rows, document_rows, self.max_length, most)
        if not self.has_segments:
            del inputs["token_type_ids"]
        return inputs

    def costs(
        self, queries: Tokens, documents: Tokens, query_rows: np.ndarray, document_rows: np.ndarray
    ) -> np.ndarray:
        """Tokens of the truncated pair, or of all its passages, special ones included."""
        lengths = queries.lengths[query_rows], documents.lengths[document_rows]
        if self.settings.passages == "average":
            lengths = lengths[0], np.minimum(lengths[1], self.settings.document_length)
            query, _, count = self.template.cut(*lengths, self.max_length)
            return lengths[1] + count * (query + self.template.specials)
        query, document = self.template.lengths(*lengths, self.max_length)
        return query + document + self.template.specials

    def forward(self, passages: Tensor | None = None, packed_index: Tensor | None = None, **inputs: Any) -> Tensor:
        states = self.encoder(**inputs).last_hidden_state
        cls = states[:, 0] if packed_index is None else cls_vectors(states, inputs["starts"], packed_index)
        if passages is not None:
            cls = mean_of_passages(cls, passages)
        # In bf16, scores would have 8 bits and tie.
        with torch.autocast(cls.device.type, enabled=False):
            return self._head(cls.to(self.score.weight.dtype))

    def _head(self, cls: Tensor) -> Tensor:
        if self.pooler is not None:
            cls = activation_of(self.activation_name)(self.pooler(cls))
        if self.norm is not None:
            cls = self.norm(cls)
        result = self.score(self.dropout(cls))
        return result[:, 1] - result[:, 0] if self.two_classes else result

    def parameter_groups(self, lr: float) -> list[dict[str, Any]]:
        """Two groups: the layers that come with the encoder (its pooler too), and the new ones. With `layer_decay`, the
        first has the encoder's last layer alone, and a group for each layer below follows."""
        encoder, *below = decayed_groups(self.encoder, lr, self.settings.layer_decay)
        groups: tuple[list[nn.Parameter], list[nn.Parameter]] = encoder["params"], []
        new_score = self.settings.head != "pretrained"
        for layer, new in ((self.pooler, self.has_own_pooler), (self.norm, False), (self.score, new_score)):
            groups[new].extend(layer.parameters() if layer is not None else ())
        return [{"params": groups[0], "lr": lr}, {"params": groups[1], "lr": self.settings.head_lr or lr}, *below]


def save_activations(encoder: PreTrainedModel, model: str) -> None:
    """Turns on gradient (activation) checkpointing by the encoder's own method."""
    if not encoder.supports_gradient_checkpointing:
        wrong = f"'{model}' cannot compute activations again"
        raise ConfigError(Problem("ranker.checkpointing", wrong, "false, or a smaller training.micro_batch"))
    encoder.activation_checkpointing_enable({"use_reentrant": False})


class EncoderRanker(Ranker):
    """What rankers over an encoder of transformers share: its tokens of whole texts."""

    def location(self, model: str) -> str:
        """Where the encoder of `ranker.model` is: its folder or hub name."""
        return model

    def prepare(self, data: RankingData, settings: Any, seed: int) -> TextSide:
        """The seed is not used: the vocabulary of `tiny` follows from the training texts alone."""
        from_front = keeps_latest(data, settings.keep)
        if settings.model == TINY:
            digest = digest_of(data.digest, TINY, settings.vocabulary_size, from_front)
            return cached_text_side("bert", digest, lambda: _tiny_text_side(data, settings, from_front))
        files = hub_files(self.location(settings.model), from_front)
        return cached_text_side("bert", digest_of(data.digest, files), lambda: _text_side(data, files))

    def weights_identity(self, settings: Any) -> list[object]:
        return [] if settings.model == TINY else files_identity(Path(self.location(settings.model)))

    def encode(self, files: Mapping[str, str], settings: Any, texts: Iterable[str]) -> Tokens:
        return encode_texts(Tokenizer.from_str(files[TOKENIZER]), texts)


class Bert(EncoderRanker):
    def notes(self, text: TextSide, settings: BertSettings) -> tuple[str, ...]:
        fields = json.loads(text.files[CONFIG])
        if settings.lora.rank or settings.layer_decay < 1:
            require_changes(empty_encoder(fields), settings.lora, settings.layer_decay)
        if fields["model_type"] in PACKED:
            return ()
        return (f"encoders of architecture {fields['model_type']} are not packed: short pairs are padded",)

    def build(self, text: TextSide, settings: BertSettings, max_length: int, outputs: int = 1) -> BertModule:
        """Raises ConfigError if the encoder has fewer positions than `max_length`, or its weights are missing."""
        module = self._without_adapters(text, settings, max_length, outputs)
        module.add_adapters(module.encoder, settings.lora)
        return module

    def _without_adapters(self, text: TextSide, settings: BertSettings, max_length: int, outputs: int) -> BertModule:
        template = PairTemplate.from_json(text.files[PAIRS])
        require_positions(settings.model, template.longest, max_length)
        if settings.model == TINY:
            return self.restore(text.files, settings, max_length, outputs)
        if settings.head == "pretrained":
            fields = json.loads(text.files[CONFIG])
            _require_classifier(settings.model, fields, outputs)
            model = pretrained_encoder(settings.model, AutoModelForSequenceClassification)
            if is_linear(fields) and not stays_linear(model, fields):
                wrong = f"'{settings.model}' was trained by another program after tune_cl wrote its scoring layer"
                raise ConfigError(Problem("ranker.head", wrong, f"remove '{OURS}' from its config.json"))
            return _whole(model, fields, template, settings, max_length, outputs)
        return BertModule(pretrained_encoder(settings.model), template, settings, max_length, outputs)

    def restore(
        self, files: Mapping[str, str], settings: BertSettings, max_length: int, outputs: int = 1
    ) -> BertModule:
        fields, template = json.loads(files[CONFIG]), PairTemplate.from_json(files[PAIRS])
        if settings.head == "pretrained":
            model = new_encoder(fields, AutoModelForSequenceClassification)
            return _whole(model, fields, template, settings, max_length, outputs)
        return BertModule(new_encoder(fields), template, settings, max_length, outputs)

    def write(
        self, module: RankerModule, files: Mapping[str, str], classes: Sequence[str], folder: Path
    ) -> dict[str, str] | None:
        """Writes a Hugging Face folder (see classifier_folder)."""
        assert isinstance(module, BertModule)
        head, layout = module.head_layers(), LAYOUTS.get(module.encoder.config.model_type)
        form = written(head, layout, module.encoder) if layout else None
        if layout is None or form is None:
            return None
        write_classifier(module.state_dict(), form, layout, files, module.max_length, classes, folder)
        return {name: files[name] for name in (CONFIG, PAIRS)}  # the encoder's configuration, as it came

    def read(self, folder: Path) -> tuple[dict[str, str], dict[str, Tensor]]:
        return read_classifier(folder)


def require_positions(model: str, longest: int, max_length: int) -> None:
    """Raises ConfigError if an encoder reads fewer tokens than `training.max_length`."""
    if max_length > longest:
        wrong = f"{max_length} tokens, but {model} reads {longest}"
        raise ConfigError(Problem("training.max_length", wrong, f"at most {longest}"))


class WholeClassifier(RankerModule):
    """A sequence classifier of another architecture than `LAYOUTS`, computed as transformers does, padding included."""

    tolerates_bf16 = True

    def __init__(self, model: PreTrainedModel, template: PairTemplate, max_length: int):
        super().__init__()
        self.model, self.template, self.max_length = model, template, max_length
        self.has_segments = "token_type_ids" in inspect.signature(model.forward).parameters

    def collate(
        self, queries: Tokens, documents: Tokens, query_rows: np.ndarray, document_rows: np.ndarray
    ) -> dict[str, Any]:
        inputs = self.template.assemble(queries, documents, query_rows, document_rows, self.max_length)
        return inputs if self.has_segments else {k: v for k, v in inputs.items() if k != "token_type_ids"}

    def costs(
        self, queries: Tokens, documents: Tokens, query_rows: np.ndarray, document_rows: np.ndarray
    ) -> np.ndarray:
        return self.template.pair_lengths(queries, documents, query_rows, document_rows, self.max_length)

    def forward(self, **inputs: Any) -> Tensor:
        logits = self.model(**inputs).logits.float()
        return logits[:, 0] if logits.shape[1] == 1 else logits[:, 1] - logits[:, 0]


@dataclass(frozen=True)
class CrossEncoder:
    """A cross-encoder that scores and was not trained by tune_cl. `probability`: whether its score is the sigmoid of
    what the module gives: of its one logit, or of the log-odds of two classes."""

    module: RankerModule
    files: Mapping[str, str]
    max_length: int
    probability: bool


def read_cross_encoder(model: str) -> CrossEncoder:
    """A folder's or hub name's sequence classifier with one or two labels, as sentence-transformers scores with it.
    Raises ConfigError if it is none."""
    files = hub_files(model, from_front=False)
    fields, template = json.loads(files[CONFIG]), PairTemplate.from_json(files[PAIRS])
    settings = BertSettings.model_validate({"model": model, "head": "pretrained"})
    if fields["model_type"] in LAYOUTS and fields.get("classifier_pooling", "cls") == "cls":
        text = TextSide(Tokens.of(()), Tokens.of(()), files)
        module: RankerModule = Bert().build(text, settings, template.longest)
    else:
        _require_classifier(model, fields | {"model_type": "bert", "classifier_pooling": "cls"}, 1)
        whole = pretrained_encoder(model, AutoModelForSequenceClassification)
        module = WholeClassifier(whole, template, template.longest)
    return CrossEncoder(module, files, template.longest, _gives_probability(model, fields))


def _gives_probability(model: str, fields: Mapping[str, Any]) -> bool:
    """Whether sentence-transformers would put a sigmoid on a single logit; of two, the log-odds always get one."""
    if len(fields.get("id2label") or "12") == 2:
        return True
    ours = fields.get("sentence_transformers") or {}
    name = ours.get("activation_fn") or fields.get("sbert_ce_default_activation_function") or "Sigmoid"
    if (last := name.rpartition(".")[2]) not in ("Identity", "Sigmoid"):
        right = "Identity or Sigmoid of torch.nn in its config.json"
        raise ConfigError(Problem("ranker.model", f"'{model}' asks for the activation {name[:80]!r}", right))
    return last == "Sigmoid"


def _whole(
    model: PreTrainedModel,
    fields: Mapping[str, Any],
    template: PairTemplate,
    settings: BertSettings,
    max_length: int,
    outputs: int,
) -> BertModule:
    """The module of a sequence classifier with its own head."""
    encoder = model.base_model
    assert isinstance(encoder, PreTrainedModel)
    return BertModule(encoder, template, settings, max_length, outputs, layers_of(model, fields))


def _require_classifier(model: str, fields: Mapping[str, Any], outputs: int) -> None:
    """Raises ConfigError unless config.json is of a cross-encoder whose head can be used, for so many outputs."""
    if problem := classifier_problem(fields, (1, 2) if outputs == 1 else (outputs,)):
        raise ConfigError(Problem("ranker.head", f"'{model}' {problem}", "cls or classification: a new scoring layer"))


def _text_side(data: RankingData, files: Mapping[str, str]) -> TextSide:
    tokenizer = Tokenizer.from_str(files[TOKENIZER])
    return TextSide(encode_texts(tokenizer, data.query_texts()), encode_texts(tokenizer, data.documents), files)


def _tiny_text_side(data: RankingData, settings: Any, from_front: bool) -> TextSide:
    tokenizer = train_wordpiece(training_texts(data), settings.vocabulary_size)
    config = tiny_config(tokenizer.get_vocab_size())
    return _text_side(data, _files(tokenizer, config, config.max_position_embeddings, PAD, from_front))


def hub_files(model: str, from_front: bool) -> dict[str, str]:
    """Files of a tokenizer and configuration from a folder or the hub."""
    config, tokenizer = read_encoder(model)
    longest = min(tokenizer.model_max_length, positions(config, tokenizer.model_max_length))
    longest = (getattr(config, OURS, None) or {}).get("longest", longest)  # our folders give another length to others
    pad = tokenizer.convert_tokens_to_ids(str(tokenizer.pad_token))
    assert isinstance(pad, int)
    typed = "token_type_ids" in tokenizer.model_input_names  # else transformers gives all tokens type 0
    return _files(tokenizer.backend_tokenizer, config, longest, pad, from_front, typed)


def _files(
    tokenizer: Tokenizer, config: PretrainedConfig, longest: int, pad: int, from_front: bool, typed: bool = True
) -> dict[str, str]:
    template = PairTemplate.of(tokenizer, longest, pad, from_front)
    fields = {key: value for key, value in config.to_dict().items() if key != "_name_or_path"}
    return {
        TOKENIZER: tokenizer.to_str(),
        CONFIG: json.dumps(fields, sort_keys=True),
        PAIRS: replace(template, second_segment=template.second_segment and typed).to_json(),
    }
