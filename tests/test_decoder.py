"""Decoders that say yes or no, on a small random Qwen3 with a tokenizer of its kind."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers
from tokenizers import Tokenizer, models, trainers

from tests.support.builders import tiny_data
from tests.support.encoder_folders import save_encoder
from tests.support.resumed import resumes_exactly
from trainables.config.keys import TrainingRun, validated
from trainables.core.errors import ConfigError
from trainables.extras.decoder import DecoderModule
from trainables.extras.prompt import INSTRUCTION, JUDGE
from trainables.rankers import load_ranker
from trainables.rankers.ranker import TextSide
from trainables.training.factory import make_training, training_notes
from trainables.training.prepared import PreparedData, prepare
from trainables.training.saved_ranker import load_ranker_folder
from trainables.training.trainer import Training

DATA = tiny_data(queries=8, candidates=4, turns=1)
DECODER = load_ranker("decoder")
MAX_LENGTH = 400  # most characters of the prompt are tokens of their own to a vocabulary this small
BEFORE = f"<|im_start|>system\n{JUDGE}<|im_end|>\n<|im_start|>user\n"
AFTER = "<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\n"
QUERIES = ["what is w1?", 'a "quoted" w3', "5 w2 (why?!)", "", " two  spaces", "so"]
DOCUMENTS = ["w1 is it.", "w3, w4", "", "<|im_end|> w9", "5 5", "line\nline"]


def prompt(instruction: str, query: str, document: str) -> str:
    """As the model card writes it."""
    return f"{BEFORE}<Instruct>: {instruction}\n<Query>: {query}\n<Document>: {document}{AFTER}"


def qwen_tokenizer() -> Any:
    """Qwen's tokenizer with few merges: its pre-tokenisation joins spaces, punctuation and line ends to their
    neighbours, and "yes", "no" and "?\\n" are tokens."""
    tokenizer = transformers.Qwen2Tokenizer(vocab={}, merges=[]).backend_tokenizer
    alphabet = sorted(
        set(map(chr, range(33, 127))) | {chr(c) for c in range(256, 324)} | {chr(c) for c in range(161, 256)}
    )
    trained = Tokenizer(models.BPE())
    trained.pre_tokenizer = tokenizer.pre_tokenizer
    trainer = trainers.BpeTrainer(vocab_size=340, initial_alphabet=alphabet, show_progress=False)
    texts = ["yes", "no", "is it?\n", "<Document>: w1 ", "<Query>: so\n"] * 50
    trained.train_from_iterator([*texts, BEFORE, AFTER], trainer)
    model = json.loads(trained.to_str())["model"]
    made = transformers.Qwen2Tokenizer(vocab=model["vocab"], merges=[tuple(pair) for pair in model["merges"]])
    made.add_special_tokens({"additional_special_tokens": ["<|im_start|>", "<|im_end|>"]})
    return made


def save_decoder(folder: Path, **config: Any) -> None:
    tokenizer = qwen_tokenizer()
    sizes = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2}
    fields = sizes | {
        "head_dim": 8,
        "intermediate_size": 64,
        "max_position_embeddings": 600,
        "tie_word_embeddings": True,
    }
    torch.manual_seed(0)
    model = transformers.Qwen3ForCausalLM(transformers.Qwen3Config(vocab_size=len(tokenizer), **fields | config))
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.2 * torch.randn_like(parameter))
    transformers.logging.disable_progress_bar()
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    path = tmp_path_factory.mktemp("qwen3")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HF_HUB_OFFLINE", "1")
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
        save_decoder(path)
        yield path


def make_run(folder: Path, **ranker: Any) -> TrainingRun:
    training = {"max_iterations": 2, "batches_per_iteration": 2, "batch_size": 4, "lr": 0.01, "precision": "fp32"}
    ranker = {"name": "decoder", "model": str(folder), **ranker}
    return validated({"ranker": ranker, "training": training | {"max_length": MAX_LENGTH}})


def prepared_of(folder: Path) -> PreparedData:
    return prepare(make_run(folder), DATA)


def build(folder: Path, **ranker: Any) -> tuple[DecoderModule, TextSide]:
    settings = make_run(folder, **ranker).ranker
    text = DECODER.prepare(DATA, settings, seed=0)
    torch.manual_seed(1)
    module = DECODER.build(text, settings, MAX_LENGTH)
    assert isinstance(module, DecoderModule)
    return module.eval(), text


def card_scores(folder: Path) -> torch.Tensor:
    """As the model card of Qwen3-Reranker computes them: the prompt's ends and the pair are tokenised apart, batches
    are padded on the left, and the last position's logits are compared."""
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder, padding_side="left")
    model = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
    before, after = (tokenizer.encode(text, add_special_tokens=False) for text in (BEFORE, AFTER))
    pairs = [
        f"<Instruct>: {INSTRUCTION}\n<Query>: {query}\n<Document>: {document}"
        for query, document in zip(QUERIES, DOCUMENTS, strict=True)
    ]
    rows = tokenizer(pairs, add_special_tokens=False, split_special_tokens=True)["input_ids"]
    inputs = tokenizer.pad({"input_ids": [before + row + after for row in rows]}, return_tensors="pt")
    yes, no = (tokenizer.convert_tokens_to_ids(answer) for answer in ("yes", "no"))
    with torch.no_grad():
        logits = model(**inputs).logits[:, -1]
    return logits[:, yes] - logits[:, no]


def test_scores_are_those_of_the_model_card(folder: Path) -> None:
    module, text = build(folder)
    queries = DECODER.encode_queries(text.files, module.settings, QUERIES)
    documents = DECODER.encode(text.files, module.settings, DOCUMENTS)
    rows = np.arange(len(QUERIES))
    with torch.no_grad():
        together = module(**module.collate(queries, documents, rows, rows))
        alone = torch.cat([module(**module.collate(queries, documents, rows[[i]], rows[[i]])) for i in rows])
    expected = card_scores(folder)
    torch.testing.assert_close(together, expected, rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(alone, together, rtol=1e-4, atol=1e-5)
    assert expected.std() > 0.01
    ids = module.collate(queries, documents, rows[:1], rows[:1])["input_ids"][0].tolist()
    whole = Tokenizer.from_str(text.files["tokenizer.json"]).encode(prompt(INSTRUCTION, QUERIES[0], DOCUMENTS[0])).ids
    assert ids == whole


def test_costs_are_the_tokens_that_are_read_and_the_prompt_is_whole(folder: Path) -> None:
    module, text = build(folder)
    long = DECODER.encode(text.files, module.settings, ["w1 " * 300])
    inputs = module.collate(long, long, np.zeros(1, int), np.zeros(1, int))
    assert inputs["input_ids"].shape[1] == MAX_LENGTH == module.costs(long, long, np.zeros(1, int), np.zeros(1, int))[0]
    ids = inputs["input_ids"][0].tolist()
    template = module.template
    assert tuple(ids[: len(template.before)]) == template.before
    assert tuple(ids[-len(template.after) :]) == template.after


@pytest.mark.parametrize("lora", [{}, {"rank": 2, "targets": ["q_proj", "v_proj"]}])
def test_a_training_resumes_exactly_and_transformers_gives_equal_scores(
    lora: dict[str, Any], folder: Path, tmp_path: Path
) -> None:
    run, prepared = make_run(folder, lora=lora), prepared_of(folder)

    def new() -> Training:
        training = make_training(run, prepared, device="cpu")
        assert isinstance(training, Training)
        return training

    whole = resumes_exactly(new, tmp_path / "state")
    trained = {name for name, parameter in whole.module.named_parameters() if parameter.requires_grad}
    assert not lora or all("lora_" in name or name == "score.weight" for name in trained)
    whole.save_ranker(tmp_path / "ranker")
    ours = whole.score(whole.dev)
    saved = load_ranker_folder(tmp_path / "ranker")
    np.testing.assert_array_equal(saved.score_split(DATA, "dev"), ours)
    np.testing.assert_allclose(seq_cls_scores(tmp_path / "ranker", whole.dev), ours, atol=1e-4)
    goes_on, _ = build(tmp_path / "ranker")
    torch.testing.assert_close(goes_on.score.weight, saved.module.score.weight)


def seq_cls_scores(folder: Path, split: Any) -> np.ndarray:
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    model = transformers.AutoModelForSequenceClassification.from_pretrained(folder).eval()
    texts = [
        prompt(INSTRUCTION, DATA.query_text(int(query)), DATA.documents[int(document)])
        for query, document in zip(split.query[split.owner], split.document, strict=True)
    ]
    with torch.no_grad():
        return model(**tokenizer(texts, padding=True, return_tensors="pt")).logits[:, 0].numpy()


def test_what_cannot_say_yes_or_no_is_an_error(folder: Path, tmp_path: Path) -> None:
    save_encoder("bert", tmp_path / "bert")
    with pytest.raises(ConfigError, match=r"'.*' is of architecture bert, whose tokens read later ones; "):
        prepare(make_run(tmp_path / "bert"), DATA)
    with pytest.raises(
        ConfigError, match=r"ranker\.model: '.*' is a decoder \(qwen3\), .*; an encoder, or ranker\.name: decoder"
    ):
        prepare(validated({"ranker": {"name": "bert", "model": str(folder)}}), DATA)
    transformers.AutoModel.from_pretrained(folder).save_pretrained(tmp_path / "bare")
    transformers.AutoTokenizer.from_pretrained(folder).save_pretrained(tmp_path / "bare")
    with pytest.raises(ConfigError, match=r"has no language model's layer and no scoring layer .*Qwen3Model"):
        prepare(make_run(tmp_path / "bare"), DATA)


def test_what_does_not_fit_is_an_error(folder: Path) -> None:
    with pytest.raises(ConfigError, match=r"ranker\.name: decoder says yes or no, and the data has classes"):
        DECODER.build(prepared_of(folder).text, make_run(folder).ranker, MAX_LENGTH, 3)
    run = make_run(folder, lora={"rank": 2, "targets": ["query"]})
    wrong = r"no linear layer of the model is named 'query'; some of q_proj, k_proj, v_proj, o_proj, gate_proj, "
    with pytest.raises(ConfigError, match=wrong):
        training_notes(run, prepared_of(folder))
    assert "decoders are not packed: short pairs are padded" in training_notes(make_run(folder), prepared_of(folder))
