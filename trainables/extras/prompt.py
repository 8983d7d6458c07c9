"""What a language model is asked about a pair, and the words that answer, with the keys of ranker decoder; without
PyTorch.

The folder decides: a chat template that knows the roles `query` and `document` (as sentence-transformers writes it) has
the whole prompt. Another chat template is given the question of Qwen/Qwen3-Reranker-0.6B's model card as a chat.
Without one, that card's prompt is used as it stands, or in plain words where the vocabulary has no marks of a chat.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from pydantic import Field

from trainables.core.errors import ConfigError, Problem
from trainables.rankers import RankerKind
from trainables.rankers.folder import ModelFolder, read_folder
from trainables.rankers.hub import cached_file_of, unusable
from trainables.rankers.settings import FILES, Checkpointing, Freeze, Keep, LoraSettings, RankerSettings

if TYPE_CHECKING:
    from tokenizers import Tokenizer

DECODERS = f"the folder of a decoder that says yes or no {FILES} or its hub name, e.g. Qwen/Qwen3-Reranker-0.6B"
TOKENIZER = "tokenizer.json"
INSTRUCTION = "Given a web search query, retrieve relevant passages that answer the query"
JUDGE = (
    "Judge whether the Document meets the requirements based on the Query and the Instruct provided. Note that the "
    'answer can only be "yes" or "no".'
)
ANSWERS = ("yes", "no")
CHAT = "<|im_start|>"  # the mark of a chat that Qwen's vocabulary has
QUERY, DOCUMENT = "tuneclquery", "tunecldocument"  # stand for the texts while a template is rendered
ANCHOR = "\n"  # behind it a text is tokenised as within a prompt, where a tokenizer marks the start of each text


class DecoderSettings(RankerSettings):
    default_lr = 2e-5
    classifies = False
    models = DECODERS
    text_side = "decoder"
    text_keys = frozenset({"model", "instruction", "keep"})

    name: str = "decoder"
    model: str = Field(
        "Qwen/Qwen3-Reranker-0.6B",
        min_length=1,
        description="the name or folder of a language model that says yes or no, or gives one logit",
    )
    instruction: str | None = Field(
        None,
        min_length=1,
        description="what the prompt says that documents are asked for; null: the model's own, else that of "
        "Qwen3-Reranker's card",
    )
    head_lr: float | None = Field(None, gt=0, description="the learning rate of the scoring layer; null: training.lr")
    lora: LoraSettings = LoraSettings()
    freeze: Freeze = None
    keep: Keep = "latest"
    checkpointing: Checkpointing = False

    def require_length(self, most: int) -> None:
        """`require_room`, for a language model whose tokenizer is on this machine."""
        folder = read_folder(self.model)
        if (file := cached_file_of(folder.at, TOKENIZER)) is not None:
            from tokenizers import Tokenizer  # here: commands read the prompt's words without it

            tokenizer = Tokenizer.from_file(str(file))
            if (prompt := prompt_of(folder, tokenizer, self.instruction)) is not None:
                require_room(sum(map(len, prompt.tokens(tokenizer))), most)


KIND = RankerKind(DecoderSettings, "trainables.extras.decoder:Decoder")


@dataclass(frozen=True)
class Prompt:
    """A pair's prompt. `before`, `between`, `after`: its fixed texts. The spaces and line ends between these and a text
    belong to the text, `query` and `document`: what stands before and behind it; a tokenizer joins them to what they
    touch. `words`: the answers yes and no as they would follow; `note`: for the user."""

    before: str
    query: tuple[str, str]
    between: str
    document: tuple[str, str]
    after: str
    words: tuple[str, str] = ANSWERS
    note: str = ""

    @classmethod
    def of(cls, before: str, between: str, after: str, **more: Any) -> Prompt:
        """From the whole texts around query and document."""
        head, lead = _ends_in_space(before)
        trail, rest = _starts_in_space(between)
        middle, second = _ends_in_space(rest)
        last, tail = _starts_in_space(after)
        return cls(head, (lead, trail), middle, (second, last), tail, **more)

    @classmethod
    def from_json(cls, text: str) -> Prompt:
        fields = json.loads(text)
        return cls(**fields | {name: tuple(fields[name]) for name in ("query", "document", "words")})

    def to_json(self) -> str:
        return json.dumps(asdict(self))

    @property
    def template(self) -> str:
        """The prompt as a chat template, from which sentence-transformers makes it."""
        parts: list[str] = []
        for fixed, role in ((self.before + self.query[0], "query"), (self._middle, "document"), (self._end, "")):
            parts += ["{{ " + json.dumps(fixed) + " }}"] if fixed else []
            parts += [
                "{{ messages | selectattr('role', 'eq', '" + role + "') | map(attribute='content') | first }}"
            ] * (role != "")
        return "".join(parts)

    @property
    def _middle(self) -> str:
        return self.query[1] + self.between + self.document[0]

    @property
    def _end(self) -> str:
        return self.document[1] + self.after

    def tokens(self, tokenizer: Tokenizer) -> tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]:
        """The tokens before the query, between query and document, and behind the document."""
        first = tuple(tokenizer.encode(self.before, add_special_tokens=False).ids)
        between, after = behind_anchor(tokenizer, (self.between, self.after))
        return first, tuple(between), tuple(after)

    def whole(self, query: str, document: str) -> str:
        return self.before + self.query[0] + query + self._middle + document + self._end


def anchor_of(tokenizer: Tokenizer) -> tuple[str, int]:
    """What texts are to be tokenised behind, so that they have the tokens that they have within a prompt, and its
    number of tokens: nothing, unless the tokenizer marks the start of each text."""
    both, *parts = (tokenizer.encode(text, add_special_tokens=False).ids for text in (". a", ".", " a"))
    if both == parts[0] + parts[1]:
        return "", 0
    return ANCHOR, len(tokenizer.encode(ANCHOR, add_special_tokens=False).ids)


def behind_anchor(tokenizer: Tokenizer, texts: Iterable[str]) -> list[list[int]]:
    """The tokens of texts that other text precedes."""
    anchor, skipped = anchor_of(tokenizer)
    return [tokenizer.encode(anchor + text, add_special_tokens=False).ids[skipped:] for text in texts]


def prompt_of(folder: ModelFolder, tokenizer: Tokenizer, instruction: str | None) -> Prompt | None:
    """The prompt of a folder's model; None for a classifier without one, which is given the pair as its tokenizer
    writes it."""
    asked = instruction or folder.prompt or INSTRUCTION
    if folder.template and (given := _of_roles(folder, instruction or folder.prompt)):
        return given
    if folder.template:
        return _of_chat(folder, asked)
    if folder.kind == "classifier" and not folder.ours:
        return None
    question = f"<Instruct>: {asked}\n<Query>: "
    if tokenizer.token_to_id(CHAT) is not None:
        before = f"{CHAT}system\n{JUDGE}<|im_end|>\n{CHAT}user\n{question}"
        return Prompt.of(before, "\n<Document>: ", f"<|im_end|>\n{CHAT}assistant\n<think>\n\n</think>\n\n")
    note = f"'{folder.model}' has no chat template: it is asked in plain words whether the document answers the query"
    plain = tuple(f" {word}" for word in ANSWERS)
    return Prompt.of(f"{JUDGE}\n{question}", "\n<Document>: ", "\nAnswer:", words=plain, note=note)


def word_ids(folder: ModelFolder, prompt: Prompt | None, tokenizer: Tokenizer) -> tuple[int, int | None]:
    """Ids of the tokens that answer yes and no. Raises ConfigError if a word is more than a token."""
    if folder.words is not None:
        return folder.words
    assert prompt is not None
    rows = [_alone(tokenizer, word) for word in prompt.words]
    if any(row is None for row in rows):
        named = " or ".join(repr(word) for word, row in zip(prompt.words, rows, strict=True) if row is None)
        raise unusable(folder.model, f"has no single token for {named}", DECODERS)
    return rows[0], rows[1]  # pyright: ignore[reportReturnType]


def _alone(tokenizer: Tokenizer, word: str) -> int | None:
    if (known := tokenizer.token_to_id(word)) is not None:
        return known
    ids = behind_anchor(tokenizer, [word])[0]
    return ids[0] if len(ids) == 1 else None


def _of_roles(folder: ModelFolder, system: str) -> Prompt | None:
    """The prompt of a template that knows the roles of a pair; None of one that does not."""
    named = all(f"{quote}{role}{quote}" in folder.template for role in ("query", "document") for quote in "'") or all(
        f'"{role}"' in folder.template for role in ("query", "document")
    )
    if not named and folder.words is None:
        return None
    messages = [{"role": "query", "content": QUERY}, {"role": "document", "content": DOCUMENT}]
    return _split(folder, [*([{"role": "system", "content": system}] if system else []), *messages], False)


def _of_chat(folder: ModelFolder, instruction: str) -> Prompt:
    """The question of Qwen3-Reranker's card as a chat: a system's message, or where the template has none its start."""
    user = f"<Instruct>: {instruction}\n<Query>: {QUERY}\n<Document>: {DOCUMENT}"
    chats = (
        [{"role": "system", "content": JUDGE}, {"role": "user", "content": user}],
        [{"role": "user", "content": f"{JUDGE}\n{user}"}],
    )
    for chat in chats:
        if (prompt := _split(folder, chat, True)) is not None and JUDGE in prompt.before:
            return prompt
    raise unusable(folder.model, "has a chat template that cannot carry a query and a document", DECODERS)


def _split(folder: ModelFolder, messages: Sequence[Mapping[str, str]], answers: bool) -> Prompt | None:
    """The texts around query and document of a rendered template; None unless each stands there once, in this order."""
    from jinja2 import TemplateError
    from jinja2.sandbox import ImmutableSandboxedEnvironment

    def refuse(message: str) -> str:
        raise TemplateError(message)

    environment = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=["jinja2.ext.loopcontrols"]
    )
    environment.globals |= {"raise_exception": refuse, "strftime_now": lambda form: "2025-01-01"}
    given = {"messages": messages, "add_generation_prompt": answers, "enable_thinking": False, **folder.tokens}
    try:
        text = environment.from_string(folder.template).render(**given)
    except (TemplateError, TypeError, ValueError, KeyError):
        return None
    before, found, rest = text.partition(QUERY)
    between, second, after = rest.partition(DOCUMENT)
    if not (found and second) or QUERY in rest or DOCUMENT in after:
        return None
    return Prompt.of(before, between, after)


def _ends_in_space(text: str) -> tuple[str, str]:
    head = text.rstrip(" \n")
    return head, text[len(head) :]


def _starts_in_space(text: str) -> tuple[str, str]:
    rest = text.lstrip(" \n")
    return text[: len(text) - len(rest)], rest


def require_room(length: int, max_length: int) -> None:
    """Raises ConfigError if a prompt of so many tokens leaves none to query and document."""
    if max_length <= length:
        wrong = f"{max_length} tokens, and the prompt alone has {length}"
        raise ConfigError(Problem("training.max_length", wrong, f"at least {length + 1}"))
