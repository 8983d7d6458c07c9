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
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from transformers import AutoModelForSequenceClassification, PreTrainedModel

from trainables.core.errors import ConfigError, Problem
from trainables.rankers.adapters import AdaptedModule, require_changes, trained_parameters
from trainables.rankers.classifier_folder import read_classifier, write_classifier, write_whole
from trainables.rankers.classifier_heads import (
    LAYOUTS,
    TANH,
    HeadLayers,
    activation_of,
    classifier_problem,
    has_layout,
    is_linear,
    layers_of,
    stays_linear,
    written,
)
from trainables.rankers.encoders import empty_encoder, first_position, new_encoder, pop_pooler, pretrained_encoder
from trainables.rankers.fast.cpu import speed_up
from trainables.rankers.fast.packing import GROUP_COST, PACKED, cls_vectors, pack, pack_encoder, unpacked
from trainables.rankers.folder import CONFIG, OURS, read_folder, require_reads_pairs
from trainables.rankers.mono_t5 import WORDS, MonoT5Module, mono_files, mono_t5, write_mono
from trainables.rankers.pretrained import PAIRS, PROMPTS, PretrainedRanker, folder_files, require_positions
from trainables.rankers.ranker import Head, RankerModule, TextSide, Tokens
from trainables.rankers.settings import TINY, BertSettings
from trainables.rankers.text_pairs import PairTemplate, mean_of_passages


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
            return unpacked(inputs)
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
        """Two groups: the layers that come with the encoder (its pooler too), and the new ones."""
        groups: tuple[list[nn.Parameter], list[nn.Parameter]] = trained_parameters(self.encoder), []
        new_score = self.settings.head != "pretrained"
        for layer, new in ((self.pooler, self.has_own_pooler), (self.norm, False), (self.score, new_score)):
            groups[new].extend(layer.parameters() if layer is not None else ())
        return [{"params": groups[0], "lr": lr}, {"params": groups[1], "lr": self.settings.head_lr or lr}]


def save_activations(encoder: PreTrainedModel, model: str) -> None:
    """Turns on gradient (activation) checkpointing by the encoder's own method."""
    if not encoder.supports_gradient_checkpointing:
        wrong = f"'{model}' cannot compute activations again"
        raise ConfigError(Problem("ranker.checkpointing", wrong, "false, or a smaller training.micro_batch"))
    encoder.activation_checkpointing_enable({"use_reentrant": False})


class Bert(PretrainedRanker):
    def files(self, settings: BertSettings, from_front: bool) -> dict[str, str]:
        folder = require_reads_pairs(read_folder(settings.model))
        if folder.kind == "seq2seq" and settings.model != TINY:
            return mono_files(folder, settings, from_front)
        prompt = {PROMPTS: json.dumps([folder.prompt, ""])} if folder.prompt else {}
        return folder_files(folder, from_front) | prompt

    def notes(self, text: TextSide, settings: BertSettings) -> tuple[str, ...]:
        fields = json.loads(text.files[CONFIG])
        if WORDS in text.files:
            return ()
        if settings.lora.rank or settings.freeze is not None:
            require_changes(empty_encoder(fields), settings.lora, settings.freeze)
        if fields["model_type"] in PACKED and (settings.head != "pretrained" or has_layout(fields)):
            return ()
        return (f"encoders of architecture {fields['model_type']} are not packed: short pairs are padded",)

    def build(
        self, text: TextSide, settings: BertSettings, max_length: int, outputs: int = 1
    ) -> BertModule | WholeClassifier | MonoT5Module:
        """Raises ConfigError if the encoder has fewer positions than `max_length`, or its weights are missing."""
        module = self._without_adapters(text, settings, max_length, outputs)
        module.add_adapters(module.encoder, settings.lora)
        module.freeze(module.encoder, settings.freeze, text)
        return module

    def _without_adapters(
        self, text: TextSide, settings: BertSettings, max_length: int, outputs: int
    ) -> BertModule | WholeClassifier | MonoT5Module:
        template = PairTemplate.from_json(text.files[PAIRS])
        require_positions(settings.model, template.longest, max_length)
        if settings.model == TINY:
            return self.restore(text.files, settings, max_length, outputs)
        if WORDS in text.files:
            return mono_t5(text.files, settings, max_length, outputs, read_folder(settings.model))
        at = read_folder(settings.model).at
        if settings.head == "pretrained":
            fields = json.loads(text.files[CONFIG])
            _require_classifier(settings, fields, outputs)
            model = pretrained_encoder(at, AutoModelForSequenceClassification)
            if is_linear(fields) and not stays_linear(model, fields):
                wrong = f"'{settings.model}' was trained by another program after tune_cl wrote its scoring layer"
                raise ConfigError(Problem("ranker.head", wrong, f"remove '{OURS}' from its config.json"))
            return _with_own_head(model, fields, template, settings, max_length, outputs)
        return BertModule(pretrained_encoder(at), template, settings, max_length, outputs)

    def restore(
        self, files: Mapping[str, str], settings: BertSettings, max_length: int, outputs: int = 1
    ) -> BertModule | WholeClassifier | MonoT5Module:
        fields, template = json.loads(files[CONFIG]), PairTemplate.from_json(files[PAIRS])
        if WORDS in files:
            return mono_t5(files, settings, max_length, outputs)
        if settings.head == "pretrained":
            model = new_encoder(fields, AutoModelForSequenceClassification)
            return _with_own_head(model, fields, template, settings, max_length, outputs)
        return BertModule(new_encoder(fields), template, settings, max_length, outputs)

    def write(
        self, module: RankerModule, files: Mapping[str, str], classes: Sequence[str], folder: Path
    ) -> dict[str, str] | None:
        """Writes a Hugging Face folder (see classifier_folder)."""
        kept = {name: files[name] for name in (CONFIG, PAIRS, PROMPTS) if name in files}
        if isinstance(module, MonoT5Module):
            return write_mono(module, files, folder)
        if isinstance(module, WholeClassifier):
            written_config = write_whole(module.state(), files, module.max_length, classes, folder)
            return kept | {CONFIG: json.dumps(written_config)}
        assert isinstance(module, BertModule)
        head, layout = module.head_layers(), LAYOUTS.get(module.encoder.config.model_type)
        form = written(head, layout, module.encoder) if layout else None
        if layout is None or form is None:
            return None
        write_classifier(module.state_dict(), form, layout, files, module.max_length, classes, folder)
        return kept  # the encoder's configuration, as it came

    def read(self, folder: Path) -> tuple[dict[str, str], dict[str, Tensor]]:
        return read_classifier(folder)


class WholeClassifier(AdaptedModule):
    """A sequence classifier whose head is not in `LAYOUTS`, or averages tokens: computed as transformers does, padding
    included. Scores [B], of two labels their log-odds; or class logits [B, K]."""

    tolerates_bf16 = True

    def __init__(
        self, model: PreTrainedModel, template: PairTemplate, settings: BertSettings, max_length: int, outputs: int
    ):
        super().__init__()
        self.model, self.template, self.settings = model, template, settings
        self.max_length, self.outputs = max_length, outputs
        speed_up(model)
        self.score_name = [
            name
            for name, layer in model.named_modules()
            if isinstance(layer, nn.Linear) and layer.out_features == model.config.num_labels
        ][-1]
        model.get_submodule(self.score_name).__class__ = ExactLinear
        if settings.checkpointing:
            save_activations(model, settings.model)
        self.has_segments = "token_type_ids" in inspect.signature(model.forward).parameters

    @property
    def encoder(self) -> PreTrainedModel:
        base = self.model.base_model
        assert isinstance(base, PreTrainedModel)
        return base

    def collate(
        self, queries: Tokens, documents: Tokens, query_rows: np.ndarray, document_rows: np.ndarray
    ) -> dict[str, Any]:
        inputs = self.template.assemble(queries, documents, query_rows, document_rows, self.max_length)
        if not self.has_segments:
            del inputs["token_type_ids"]
        return unpacked(inputs)

    def costs(
        self, queries: Tokens, documents: Tokens, query_rows: np.ndarray, document_rows: np.ndarray
    ) -> np.ndarray:
        return self.template.pair_lengths(queries, documents, query_rows, document_rows, self.max_length)

    def forward(self, **inputs: Any) -> Tensor:
        logits = self.model(**inputs).logits.float()
        if self.outputs > 1:
            return logits
        return logits[:, 0] if logits.shape[1] == 1 else logits[:, 1] - logits[:, 0]

    def parameter_groups(self, lr: float) -> list[dict[str, Any]]:
        """The encoder, and its head, which it brought."""
        encoder = trained_parameters(self.encoder)
        in_encoder = {id(parameter) for parameter in self.encoder.parameters()}
        head = [parameter for parameter in self.model.parameters() if id(parameter) not in in_encoder]
        return [{"params": head, "lr": lr}, {"params": encoder, "lr": lr}]

    def state(self) -> dict[str, Tensor]:
        """The model's tensors, with one output a score: that of two labels as its log-odds."""
        tensors = dict(self.model.state_dict())
        if self.outputs == 1 and self.model.config.num_labels == 2:
            for name in (f"{self.score_name}.weight", f"{self.score_name}.bias"):
                if name in tensors:
                    tensors[name] = tensors[name][1:] - tensors[name][:1]
        return tensors


class ExactLinear(nn.Linear):
    """A scoring layer in the precision of its weights: in bf16, scores would have 8 bits and tie."""

    def forward(self, input: Tensor) -> Tensor:
        with torch.autocast(input.device.type, enabled=False):
            return super().forward(input.to(self.weight.dtype))


def _with_own_head(
    model: PreTrainedModel,
    fields: Mapping[str, Any],
    template: PairTemplate,
    settings: BertSettings,
    max_length: int,
    outputs: int,
) -> BertModule | WholeClassifier:
    """The module of a sequence classifier with its own head."""
    if not has_layout(fields):
        return WholeClassifier(model, template, settings, max_length, outputs)
    encoder = model.base_model
    assert isinstance(encoder, PreTrainedModel)
    return BertModule(encoder, template, settings, max_length, outputs, layers_of(model, fields))


def _require_classifier(settings: BertSettings, fields: Mapping[str, Any], outputs: int) -> None:
    """Raises ConfigError unless config.json is of a cross-encoder whose head can be used, for so many outputs."""
    if problem := classifier_problem(fields, (1, 2) if outputs == 1 else (outputs,)):
        right = "cls or classification: a new scoring layer"
        raise ConfigError(Problem("ranker.head", f"'{settings.model}' {problem}", right))
    if settings.passages != "truncate" and not has_layout(fields):
        wrong = f"'average' is of [CLS] vectors, which the head of '{settings.model}' does not read alone"
        raise ConfigError(Problem("ranker.passages", wrong, "truncate, or ranker.head: cls"))
