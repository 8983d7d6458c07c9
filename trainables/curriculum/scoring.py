"""Scorings: functions that give each training instance a difficulty, and what they may read."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from scipy.sparse import csr_array

from trainables.core.cache import cached, digest_of, entry_in_cache, load_arrays, save_arrays
from trainables.core.errors import ConfigError, DataError, Problem, WorkFailed
from trainables.core.plugins import source_of
from trainables.core.randomness import generator
from trainables.core.registry import Entry, Part, Registry, require_arguments, require_known
from trainables.curriculum.difficulty_file import difficulty_of_file, no_file
from trainables.curriculum.weighting import WEIGHTINGS, Heuristic, pairwise_ease, pointwise_ease, values_of
from trainables.data.bm25 import candidate_scores
from trainables.data.columns import RankingData, Split, TextColumn
from trainables.data.instances import DRAWN, NONE, Instances
from trainables.rankers.settings import TRAINED_VECTORS

PAPER, CODE = "paper", "code"


@dataclass(frozen=True)
class Groups:
    """Some candidates of each query: `rows` of the split, int64 [K]; those of query i at offsets[i]:offsets[i + 1].

    Each group is summed on its own, so that no query's value depends on the queries before it.
    """

    rows: np.ndarray
    offsets: np.ndarray

    @property
    def sizes(self) -> np.ndarray:
        """Number of candidates per query, int64 [Q]."""
        return np.diff(self.offsets)

    @property
    def owner(self) -> np.ndarray:
        """Position of each candidate's query, int64 [K]."""
        return np.repeat(np.arange(len(self.sizes)), self.sizes)

    def where(self, included: np.ndarray) -> Groups:
        """The groups without the candidates that are not included, bool [K]."""
        sizes = np.bincount(self.owner[included], minlength=len(self.sizes))
        return Groups(self.rows[included], np.concatenate([[0], np.cumsum(sizes)]))

    def sums(self, values: np.ndarray) -> np.ndarray:
        """Sum of the values [K] of each group, float64 [Q]; an empty group gives 0."""
        sums = np.zeros(len(self.sizes))
        nonempty = self.sizes > 0
        if nonempty.any():
            sums[nonempty] = np.add.reduceat(values.astype(np.float64, copy=False), self.offsets[:-1][nonempty])
        return sums

    def means(self, values: np.ndarray) -> np.ndarray:
        """Mean of each group, float64 [Q]; an empty group gives 0."""
        return self.sums(values) / np.maximum(self.sizes, 1)

    def deviations(self, values: np.ndarray, ddof: int) -> np.ndarray:
        """Standard deviation of each group, float64 [Q]; ddof 1 for a sample's. A group of one or none gives 0."""
        squares = self.sums((values - np.repeat(self.means(values), self.sizes)) ** 2)
        return np.sqrt(squares / np.maximum(self.sizes - ddof, 1))


@dataclass(frozen=True)
class Scored:
    """What a scoring function may look at.

    reference        `paper`, or `code` where the code of Penha & Hauff (2020) differs
    relevance_level  lowest relevant grade
    vectors          word vectors: `train`, or the path of a file
    file             path of the file that scoring `file` reads
    teacher          returns a trained ranker's scores of the split's candidates: logits of relevance, float32 [C], or
                     class logits, float32 [C, K], for pairs to classify
    teacher_course   returns the scores of a teacher after each iteration of its training, float32 [E, C] or [E, C, K]
    early_teachers   returns those of several teachers a few iterations into their trainings, a row for each teacher
    cross_fitted     returns what `teacher` does, of teachers that were each trained without the query in question
    """

    data: RankingData
    split: Split
    instances: Instances
    seed: int
    reference: str = PAPER
    relevance_level: int = 1
    vectors: str = TRAINED_VECTORS
    file: str | None = None
    teacher: Callable[[], np.ndarray] | None = None
    teacher_course: Callable[[], np.ndarray] | None = None
    early_teachers: Callable[[], np.ndarray] | None = None
    cross_fitted: Callable[[], np.ndarray] | None = None

    def __len__(self) -> int:
        """How many instances there are, I."""
        return len(self.instances)

    def teacher_scores(self, which: str = "teacher") -> np.ndarray:
        """What the field `which`, one of TEACHERS, returns. Raises WorkFailed if there is no teacher."""
        scores: Callable[[], np.ndarray] | None = getattr(self, which)
        if scores is None:
            raise WorkFailed("this scoring needs a trained teacher, and none was given")
        return scores()

    @cached_property
    def groups(self) -> Groups:
        """The candidates that count: all of a query's (paper), or only the first relevant and the first other one in
        the order that the data gives (code)."""
        split = self.split
        if self.reference == PAPER:
            return Groups(np.arange(len(split.document)), split.offsets)
        owner, relevant = split.owner, split.grade >= self.relevance_level
        firsts = [_firsts(owner, kind, split.given) for kind in (relevant, ~relevant)]
        rows = np.sort(np.concatenate(firsts))
        sizes = np.bincount(owner[rows], minlength=len(split))
        return Groups(rows, np.concatenate([[0], np.cumsum(sizes)]))

    def spread(self, values: np.ndarray) -> np.ndarray:
        """Standard deviation over each query's candidates in `groups`, float64 [Q]; ddof 1 (paper) or 0 (code)."""
        return self.groups.deviations(values, ddof=1 if self.reference == PAPER else 0)

    def of_queries(self, values: np.ndarray) -> np.ndarray:
        """One value per query of the split [Q], repeated for each of its instances [I]."""
        return values[self.instances.query]


def _firsts(owner: np.ndarray, included: np.ndarray, given: np.ndarray | None) -> np.ndarray:
    """For each owner that has chosen rows, the one that the data gives first."""
    rows = np.flatnonzero(included)
    if given is not None:
        rows = rows[np.lexsort((given[rows], owner[rows]))]
    return rows[np.unique(owner[rows], return_index=True)[1]]


@dataclass(frozen=True)
class Scoring:
    """A scoring function and what it reads.

    needs        fields of Scored that its values depend on, besides data, split and instances
    reads_texts  whether it applies only to data with texts
    unfit        why it does not apply to pairs to classify; None if it does
    """

    function: Callable[[Scored], np.ndarray]
    needs: frozenset[str] = frozenset()
    reads_texts: bool = True
    unfit: str | None = None

    def __call__(self, scored: Scored) -> np.ndarray:
        return self.function(scored)


PENHA = "Penha & Hauff 2020, Table 2"
CANDIDATES = ("reference", "relevance_level")
ONE_CANDIDATE = "compares a query's candidates, and a pair to classify has one"
ONE_UTTERANCE = "is the same for all pairs: each has one utterance"
NO_RUN = "reads a first-stage run, and pairs to classify have none"
OTHER_TEACHERS = ("teacher_course", "early_teachers", "cross_fitted")
EARLY_TEACHERS, EARLY_ITERATIONS = 3, 2  # that el2n averages over, and after which it reads them
CONSTANT = "every training instance has the same difficulty"  # what is noted where an order would mean nothing
FOLDS = 5  # parts of the training queries; for crossfit_loss a teacher is trained without each
TEACHERS = ("teacher", *OTHER_TEACHERS)
NEEDS = frozenset({"seed", "reference", "relevance_level", "vectors", "file", *TEACHERS})
SCORINGS: Registry[Scoring] = Registry("curriculum.scoring", open_to_plugins=True)


def scoring(
    name: str,
    summary: str = "",
    source: str = "",
    *,
    needs: Iterable[str] = (),
    reads_texts: bool = True,
    unfit: str | None = None,
) -> Callable[[Part], Part]:
    """Registers a function of (scored) as a scoring: the difficulty of each instance, float64 [I], higher = harder.

    needs, reads_texts, unfit  as in Scoring
    """

    def value(function: Any) -> Scoring:
        require_arguments(function, "scored")
        return Scoring(function, require_known(needs, NEEDS), reads_texts, unfit)

    return SCORINGS.decorator(name, summary, source, value)


@scoring(
    "self_paced",
    "the ranker's own loss, measured again in each iteration; a random order before that",
    "Kumar et al. 2010",
    needs=("seed",),
    reads_texts=False,
)
@scoring("random", "a random order, fixed by the seed", PENHA, needs=("seed",), reads_texts=False)
def random(scored: Scored) -> np.ndarray:
    return generator(scored.seed, "random difficulty").permutation(len(scored.instances)).astype(np.float64)


@scoring("turns", "utterances of the context", PENHA, unfit=ONE_UTTERANCE)
def turns(scored: Scored) -> np.ndarray:
    """Number of utterances of the context."""
    return scored.of_queries(scored.data.turns[scored.split.query].astype(np.float64))


@scoring("context_words", "mean words of the context's utterances", PENHA)
def context_words(scored: Scored) -> np.ndarray:
    """Mean number of words of the context's utterances."""
    data = scored.data
    means = Groups(np.arange(len(data.utterances)), data.utterance_offsets).means(word_counts(data.utterances))
    return scored.of_queries(means[scored.split.query])


@scoring("response_words", "mean words of the candidates", PENHA, needs=CANDIDATES)
def response_words(scored: Scored) -> np.ndarray:
    """Mean number of words of the query's candidates."""
    documents = scored.split.document[scored.groups.rows]
    return scored.of_queries(scored.groups.means(word_counts(scored.data.documents)[documents]))


@scoring("file", "the values in curriculum.file", "any", needs=("file",), reads_texts=False)
def from_file(scored: Scored) -> np.ndarray:
    """The values of `curriculum.file` (trainables.curriculum.difficulty_file)."""
    if scored.file is None:
        raise ConfigError(no_file(None))
    return difficulty_of_file(Path(scored.file), scored.data, scored.split, scored.instances)


def word_counts(texts: TextColumn) -> np.ndarray:
    """Number of words per text, separated by single spaces, int64 [N]; an empty text has none."""
    spaces = np.flatnonzero(texts.data == ord(" "))
    before = np.searchsorted(spaces, texts.offsets)
    return np.where(np.diff(texts.offsets) > 0, np.diff(before) + 1, 0)


BM25_K1, BM25_B = 1.5, 0.75  # as in gensim 3.8, which the paper's code calls
SEMANTIC_WORDS = 20  # k
VECTOR_SIZE = 100  # of trained vectors: the default of ranker conv_knrm, so that both use the same vectors
_BLOCK = 1 << 15  # candidates matched at once


@scoring(
    "semantic_std",
    "σ over the candidates of the mean cosine between their words and the context's",
    PENHA,
    needs=(*CANDIDATES, "vectors"),
    unfit=ONE_CANDIDATE,
)
def semantic_std(scored: Scored) -> np.ndarray:
    """Standard deviation over a query's candidates of the mean cosine between words of the context and words of the
    candidate.

    Of each text only the first 20 words count (code: the last 20 of the context), and of these only words that have a
    vector; a candidate without any such pair gets 0. Raises ConfigError or DataError for a bad file of vectors.
    """
    # Imported here because it loads torch, which merely naming a scoring must not.
    from trainables.rankers.text_pairs import keeps_latest
    from trainables.rankers.word_vectors import FIRST_WORD, word_text_side

    if scored.vectors != TRAINED_VECTORS and not Path(scored.vectors).is_file():
        raise ConfigError(no_vectors(scored.vectors))
    from_front = keeps_latest(scored.data, "latest")
    text = word_text_side(scored.data, scored.vectors, VECTOR_SIZE, from_front, seed=0)
    units = _units(text.arrays["vectors"][FIRST_WORD:])
    split, groups = scored.split, scored.groups
    query_rows, document_rows = split.query[groups.owner], split.document[groups.rows]
    cosines = np.empty(len(groups.rows))
    for start in range(0, len(cosines), _BLOCK):
        part = slice(start, start + _BLOCK)
        contexts, context_of = np.unique(query_rows[part], return_inverse=True)
        query_sums, asked_words = _vector_sums(text.queries, contexts, units, last=scored.reference == CODE)
        said, said_words = _vector_sums(text.documents, document_rows[part], units)
        pairs = asked_words[context_of] * said_words
        cosines[part] = np.einsum("ij,ij->i", query_sums[context_of], said) / np.maximum(pairs, 1)
    return scored.of_queries(scored.spread(cosines))


def no_vectors(name: str) -> Problem:
    """The problem of a missing file of word vectors."""
    right = f"{TRAINED_VECTORS}, or a file of word2vec, GloVe or fastText vectors"
    return Problem("curriculum.vectors", f"no file '{name}'", right)


def _units(vectors: np.ndarray) -> np.ndarray:
    """The vectors scaled to length 1, float32 [V, D]; zero vectors stay zero."""
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    return vectors / np.where(lengths > 0, lengths, 1)


def _vector_sums(tokens, rows: np.ndarray, units: np.ndarray, last: bool = False) -> tuple[np.ndarray, np.ndarray]:
    """Sum of the unit vectors of each text's first (or last) words, float32 [B, D], and how many of them have one, [B].

    The dot product of two such sums is the sum of the cosines over all pairs of words.
    """
    from trainables.rankers.word_vectors import FIRST_WORD

    starts, ends = tokens.offsets[rows], tokens.offsets[rows + 1]
    if last:
        starts = np.maximum(starts, ends - SEMANTIC_WORDS)
    at = starts[:, None] + np.arange(SEMANTIC_WORDS)
    inside = at < ends[:, None]
    words = np.where(inside, tokens.ids[np.where(inside, at, 0)], 0) - FIRST_WORD if len(tokens.ids) else at * 0 - 1
    has_vector = words >= 0
    counts = has_vector.sum(axis=1)
    indptr = np.concatenate([[0], np.cumsum(counts)])
    bags = csr_array((np.ones(indptr[-1], np.float32), words[has_vector], indptr), (len(rows), len(units)))
    return bags @ units, counts


@scoring(
    "bm25_std",
    "σ over the candidates of their BM25 scores for the context",
    PENHA,
    needs=CANDIDATES,
    unfit=ONE_CANDIDATE,
)
def bm25_std(scored: Scored) -> np.ndarray:
    """Standard deviation over a query's candidates of their BM25 (Okapi) scores for the context's words.

    The corpus holds each document once that is among the candidates that count (`Scored.groups`).
    """
    scores = candidate_scores(scored.data, scored.split, scored.groups.rows, "okapi", BM25_K1, BM25_B)
    return scored.of_queries(scored.spread(scores))


@scoring(
    "model_margin",
    "how little a trained teacher prefers the relevant candidates: -(p(relevant) - p(other))",
    PENHA,
    needs=(*CANDIDATES, "teacher"),
)
def model_margin(scored: Scored) -> np.ndarray:
    """Minus (mean probability of a query's relevant candidates - mean probability of its others), in [-1, 1].

    The paper's p(R+) - p(R-) with its leading minus sign; without candidates of one kind, that mean is 0. For a pair to
    classify: minus (probability of its class - largest probability of another).
    """
    if scored.data.task == "classification":
        right, others = _class_log_probabilities(scored)
        return scored.of_queries(np.exp(others.max(axis=1)) - np.exp(right))
    logits, relevant, groups = _logits_and_relevance(scored)
    probability = np.exp(-np.logaddexp(0, -logits))
    return scored.of_queries(_means_where(groups, probability, ~relevant) - _means_where(groups, probability, relevant))


@scoring(
    "model_loss",
    "a trained teacher's mean cross-entropy over the candidates",
    PENHA,
    needs=(*CANDIDATES, "teacher"),
)
def model_loss(scored: Scored) -> np.ndarray:
    """Mean binary cross-entropy over a query's candidates; for a pair to classify, the cross-entropy of its class."""
    if scored.data.task == "classification":
        return scored.of_queries(-_class_log_probabilities(scored)[0])
    logits, relevant, groups = _logits_and_relevance(scored)
    return scored.of_queries(groups.means(np.logaddexp(0, logits) - logits * relevant))


def _class_log_probabilities(scored: Scored) -> tuple[np.ndarray, np.ndarray]:
    """Log-probabilities of each pair's class, float64 [Q], and of each other class, float64 [Q, K - 1]."""
    logits = scored.teacher_scores().astype(np.float64)
    log_probability = logits - np.logaddexp.reduce(logits, axis=1, keepdims=True)
    right = np.arange(logits.shape[1]) == scored.split.grade[:, None]
    return log_probability[right], log_probability[~right].reshape(len(logits), -1)


def _logits_and_relevance(scored: Scored) -> tuple[np.ndarray, np.ndarray, Groups]:
    """Logits, float64 [K], and relevance, bool [K], of the candidates that count; and their groups.

    Candidates without a score in the data (NaN) do not count. Raises DataError if that leaves a query without relevant
    candidates.
    """
    scores, of_grade = scored.teacher_scores(), scored.split.grade >= scored.relevance_level
    counting = scored.groups
    groups = counting.where(~np.isnan(scores[counting.rows]))
    bare = (counting.sums(of_grade[counting.rows]) > 0) & (groups.sums(of_grade[groups.rows]) == 0)
    if bare.any():
        query = scored.data.query_ids[int(scored.split.query[np.argmax(bare)])]
        wrong = f"the data gives no teacher's score for any relevant candidate of query '{query}'"
        more = f" and {int(bare.sum()) - 1} more" if bare.sum() > 1 else ""
        raise DataError(Problem("curriculum.scoring", wrong + more, "scores for them, or another scoring"))
    return scores[groups.rows].astype(np.float64), of_grade[groups.rows], groups


def _means_where(groups: Groups, values: np.ndarray, included: np.ndarray) -> np.ndarray:
    return groups.sums(values * included) / np.maximum(groups.sums(included), 1)


@scoring(
    "el2n",
    "norm of the error that teachers make a few iterations into their trainings, mean over three",
    "Paul et al. 2021",
    needs=("early_teachers",),
)
def el2n(scored: Scored) -> np.ndarray:
    """EL2N of Paul, Ganguli & Dziugaite 2021 ("Deep Learning on a Data Diet"; code:
    mansheej/data_diet): the mean over several short trainings of ‖p - y‖₂, the norm of the error vector.

    p is the softmax of the scores over what the instance tells apart, and y its one-hot label: for an instance with a
    positive, that document and the negatives that may stand beside it; for a document alone, its being relevant or not
    (probability by sigmoid, so the norm is √2 |p - y|; the mean over the negatives that may be drawn); for a pair to
    classify, the classes.
    """
    return np.mean([_beliefs(scored, scores)[1] for scores in scored.teacher_scores("early_teachers")], axis=0)


CARTOGRAPHY, NORTHCUTT = "Swayamdipta et al. 2020", "Northcutt et al. 2021"


@scoring(
    "confidence",
    "1 - the label's mean probability over a teacher's iterations: label noise comes last",
    CARTOGRAPHY,
    needs=("teacher_course",),
)
def confidence(scored: Scored) -> np.ndarray:
    """1 - confidence of Swayamdipta et al. 2020 ("Dataset Cartography"; code: allenai/cartography): the mean over
    a teacher's iterations of the probability of the label, as in `el2n`. They find wrong labels where it is low."""
    return 1 - _label_probabilities(scored).mean(axis=0)


@scoring(
    "variability",
    "standard deviation of the label's probability over a teacher's iterations: ambiguous instances come last",
    CARTOGRAPHY,
    needs=("teacher_course",),
)
def variability(scored: Scored) -> np.ndarray:
    """Standard deviation over a teacher's iterations of the probability of the label, as in `el2n` (Swayamdipta et al.
    2020)."""
    return _label_probabilities(scored).std(axis=0)


@scoring(
    "crossfit_loss",
    "cross-entropy of the label by a teacher that was trained without the query: label noise comes last",
    NORTHCUTT,
    needs=("cross_fitted",),
)
def crossfit_loss(scored: Scored) -> np.ndarray:
    """-log of the probability of the label, as in `el2n`, by a teacher that has not seen it: the training queries are
    divided into folds, and the candidates of each fold are scored by a teacher of the others. A teacher that was
    trained on wrong labels may have memorised them. Northcutt, Jiang & Chuang 2021 ("Confident Learning"; code:
    cleanlab/cleanlab) find label errors by such out-of-sample probabilities."""
    belief = _beliefs(scored, scored.teacher_scores("cross_fitted"))[0]
    return -np.log(np.maximum(belief, np.finfo(np.float64).tiny))


def _label_probabilities(scored: Scored) -> np.ndarray:
    """Probability of each instance's label after each iteration of the teacher, float64 [E, I]."""
    return np.stack([_beliefs(scored, scores)[0] for scores in scored.teacher_scores("teacher_course")])


def _beliefs(scored: Scored, scores: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Probability of each instance's label, and norm of the error vector, float64 [I] each; see `el2n`."""
    instances = scored.instances
    if scored.data.task == "classification":
        logits = scores[instances.positive].astype(np.float64)
        odds = np.exp(logits - logits.max(axis=1, keepdims=True))
        right = np.arange(odds.shape[1]) == scored.split.grade[instances.positive, None]
        return _of_list(odds[right], odds.sum(axis=1, where=~right), (odds**2).sum(axis=1, where=~right))
    logits, owner = scores.astype(np.float64), scored.split.owner
    if not instances.pairwise:
        probability = np.exp(-np.logaddexp(0, -logits))  # of being relevant
        relevant = instances.negative == NONE
        belief = np.where(relevant, probability[instances.positive], 1 - _negative_values(instances, probability))
        return belief, np.sqrt(2) * (1 - belief)
    highest = np.full(len(scored.split), -np.inf)
    np.maximum.at(highest, owner, logits)
    odds = np.exp(logits - highest[owner])  # of one query alike, so that none overflows
    others, squares = (_negative_sums(instances, values)[0] for values in (odds, odds**2))
    return _of_list(odds[instances.positive], others, squares)


def _of_list(right: np.ndarray, others: np.ndarray, squares: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Softmax probability of the right one, and norm of the error vector, from its odds, the sum of the others' odds
    and that of their squares; float64 [I] each."""
    total = np.maximum(right + others, np.finfo(np.float64).tiny)
    return right / total, np.sqrt((others / total) ** 2 + squares / total**2)


def hardness(heuristic: str) -> Callable[[Scored], np.ndarray]:
    """The scoring function of a weighting heuristic, given by name.

    1 - D (Eq. 5, 6) is linear in the negative's value, so its mean over the negatives that may be drawn is 1 - D at
    their mean value.
    """

    def function(scored: Scored) -> np.ndarray:
        instances, value = scored.instances, values_of(heuristic, scored.split, scored.reference == CODE)
        negative = _negative_values(instances, value)
        if instances.pairwise:
            return 1 - pairwise_ease(value[instances.positive], negative)
        relevant = instances.negative == NONE
        return 1 - pointwise_ease(np.where(relevant, value[instances.positive], negative), relevant)

    return function


def _negative_values(instances: Instances, value: np.ndarray) -> np.ndarray:
    """Value of each instance's negative, float64 [I]: that of a fixed one, or the mean over those that may be drawn.

    Meaningless where an instance has no negative.
    """
    sums, counts = _negative_sums(instances, value)
    return sums / counts


def _negative_sums(instances: Instances, value: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Sum of the values of the documents that may stand as each instance's negative, float64 [I], and their number;
    meaningless where an instance has no negative."""
    sums, counts = value[instances.negative].astype(np.float64), np.ones(len(instances))
    drawn = np.flatnonzero(instances.negative == DRAWN)
    if len(drawn):
        sums[drawn], counts[drawn] = _sums_below(instances, value, drawn)
    return sums, counts


def _sums_below(instances: Instances, value: np.ndarray, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Sum of the values of the documents that may become the negative of each of the given instances, float64 [B], and
    their number."""
    start = instances.start[rows].astype(np.int64)
    # Most instances of a query draw from the same documents: these are summed only once.
    parts, which = np.unique(np.stack([start, instances.below[rows]]), axis=1, return_inverse=True)
    first, count = parts
    bounds = np.stack([first, first + count], axis=1).ravel()
    sums = np.add.reduceat(np.append(value[instances.easier], 0.0), bounds)[::2]
    return sums[which], count[which]


def order_of(weighting: Entry[Heuristic | None]) -> Entry[Scoring] | None:
    """A weighting as an order; None for one that is not a heuristic."""
    if weighting.value is None:
        return None
    name, summary = weighting.name, f"1 - mean ease D of weighting {weighting.name}"
    value = Scoring(hardness(name), frozenset({"reference"}), reads_texts=False, unfit=NO_RUN)
    return Entry(name, value, summary, weighting.source, weighting.module, weighting.part)


WEIGHTINGS.followed_by(SCORINGS, order_of)


def any_needs(names: Iterable[str], field: str) -> bool:
    """Whether one of the scorings reads the field of Scored."""
    return any(field in SCORINGS[name].needs for name in names)


FORMAT = 5  # raise when a scoring function changes its values


def difficulty(name: str, scored: Scored) -> tuple[np.ndarray, bool]:
    """Difficulty of each instance, float64 [I], higher = harder; and whether it came from the cache.

    The cache key covers data, split, instances and whatever else the scoring reads, so trials that share these share
    the file. A teacher's scores are part of the key, so they are needed even on a cache hit.
    """
    instances, split = scored.instances, scored.split
    needs = [_content(need, scored) for need in sorted(SCORINGS[name].needs)]
    code = [own] if (own := source_of(SCORINGS.entries[name])) else []
    drawn = [instances.easier, instances.start, instances.below]
    rows = [split.query, instances.query, instances.positive, instances.negative, *drawn]
    key = digest_of(FORMAT, scored.data.digest, name, instances.pairwise, *needs, *rows, *code)
    was_cached = entry_in_cache("difficulty", key) is not None

    def build(folder: Path) -> None:
        save_arrays(folder, {"difficulty": checked_difficulty(name, SCORINGS[name](scored), len(instances))})

    return load_arrays(cached("difficulty", key, build))["difficulty"], was_cached


def checked_difficulty(name: str, values: np.ndarray, count: int) -> np.ndarray:
    """The values of a scoring as float64 [I]. Raises WorkFailed if they are not one finite number an instance."""
    values = np.asarray(values, np.float64)
    if values.shape != (count,):
        shape = list(values.shape)
        raise WorkFailed(f"curriculum.scoring: '{name}' gives values of shape {shape} for {count} instances")
    if not np.isfinite(values).all():
        raise WorkFailed(f"curriculum.scoring: '{name}' gives a value that is not a finite number")
    return values


def _content(need: str, scored: Scored) -> object:
    """What identifies a field of Scored: for the teacher its scores, for a file of vectors its path and time, for one
    of difficulty its bytes."""
    if need in TEACHERS:
        return scored.teacher_scores(need)
    if need == "file" and scored.file is not None and Path(scored.file).is_file():
        return digest_of(Path(scored.file))
    path = Path(scored.vectors)
    if need == "vectors" and scored.vectors != TRAINED_VECTORS and path.is_file():
        return [str(path.resolve()), path.stat().st_mtime_ns]
    return getattr(scored, need)
