"""What reviews say: from a parsed corpus to statements, to everybody who says them, to the words that tell them."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray

from whyrank.data.statements import GENERAL, ITSELF
from whyrank.mining import statements as st
from whyrank.mining.corpus import Corpus
from whyrank.mining.counting import Meaning, Mentioned, Parsed, ask, asked, content, cut
from whyrank.mining.language import Language, language_of
from whyrank.mining.learned import LearnedWords, learn_usual
from whyrank.mining.lexicon import Lexicon, learn, pointed_at
from whyrank.mining.matcher import Matcher, best_of_reviews, matcher_of
from whyrank.mining.mentions import NAME, Sentences, bits_of, find_mentions, program_of
from whyrank.mining.mined import Mined
from whyrank.mining.opinions import Names, opinions
from whyrank.mining.parse import TAGS
from whyrank.mining.quotes import quality
from whyrank.mining.report import MiningReport
from whyrank.mining.rules import MiningRules

Tell = Callable[[str, int, int | None], None]
MATCHER = Path(__file__).with_name("matcher.json")
BREAKS = frozenset((";", "--", "---", "-", "–", "...", "…", "(", ")", ":"))
PLURALS = ("NNS", "NNPS")
REMEMBERED = 5  # reviews that hold a word that a pool remembers
POINTED = 2  # people who say `this pedal` of an item from which on it is one
TITLES = frozenset(("mr", "mrs", "ms", "miss", "dr", "prof", "madam", "sir", "aunt", "uncle"))


def marks_of(vocabulary: Sequence[str]) -> dict[str, NDArray[np.bool_]]:
    """Return which words break clauses and which ask, and which tags are plurals, as `find_mentions` takes them."""
    return {
        "breaks": np.array([word in BREAKS for word in vocabulary], np.bool_),
        "question": np.array([word.startswith("?") for word in vocabulary], np.bool_),
        "plural": np.array([tag in PLURALS for tag in TAGS], np.bool_),
    }


class OfItem(NamedTuple):
    """What an item's clauses gave: its statements, and the log-odds of each review with its best clause."""

    item: str
    proposals: list[st.Proposal]
    reviews: NDArray[np.int32]
    best: NDArray[np.float32]
    which: NDArray[np.int32]  # clauses of the corpus; -1


class Reader:
    """Reads a corpus once."""

    def __init__(
        self,
        corpus: Corpus,
        records: pl.DataFrame,
        rules: MiningRules,
        titles: Mapping[str, str],
        old: Mined | None,
        report: MiningReport,
        tell: Tell,
    ) -> None:
        self.records, self.rules, self.titles, self.old, self.report, self.tell = (
            records,
            rules,
            titles,
            old,
            report,
            tell,
        )
        self.language: Language = language_of(rules.language, *map(Path, rules.words))
        self.general = self.language.has("general") | self.language.has("vague") | self.language.has("wholes")
        self.matcher: Matcher = matcher_of(Path(rules.matcher) if rules.matcher else MATCHER)
        self.vocabulary = list(corpus.vocabulary)
        self.corpus = corpus

    # -- mentions ------------------------------------------------------------------------------------------------------

    def parsed(self) -> Parsed:
        """Find mentions and clauses; learn the words unless an earlier pool has."""
        given, start, end = self.corpus.counting(self.records["counts"].to_numpy())
        language, vocabulary = self.language, self.vocabulary
        spelled, tagged = bits_of(language, vocabulary, TAGS)
        bits = spelled[given.word] | tagged[given.tag]
        marks = marks_of(vocabulary)
        mentions, clause = find_mentions(given, bits, program_of(language), language, vocabulary, marks)
        earlier = self.old.learned if self.old is not None else None
        self.lexicon: Lexicon = earlier.lexicon(vocabulary) if earlier else learn(given, bits, vocabulary, language)
        self.names = Names(language, self.lexicon, vocabulary)
        values = np.array([language.sign(word) for word in vocabulary], np.float32)
        clauses, says = cut(given, bits, clause, values), content(given, bits)
        self.meaning = Meaning(language, self.lexicon, vocabulary)
        if earlier is None:
            centre, reference = learn_usual(given, clauses, says, self.records["copy"], self.meaning)
        else:
            centre, reference = earlier.centre, earlier.reference
        numbers = self.meaning.numbers
        known = [np.array([numbers[word] for word in each if word in numbers], np.int32) for each in reference]
        middle = np.array(centre, np.float32)
        self.meaning.refer(known, middle)
        score = self.records["score"].to_numpy().astype(np.float32)
        rated = np.where(self.records["rating"].is_null().to_numpy(), np.nan, score.astype(np.float64))
        table = self.kept(opinions(given, mentions, self.names, marks["plural"], rated))
        self.learned = earlier or self._learned(centre, reference, table)
        self.report.sentences = len(mentions.rule)
        distinct = table.select("clause", "aspect").unique()["clause"].to_numpy()
        amount = np.bincount(distinct, minlength=len(clauses.first)).astype(np.int32)
        fit = quality(clauses, given, bits, self.lexicon, amount)
        fit[clause[self._persons(given, bits)]] = -np.inf
        said = Mentioned.of(table, len(clauses.first))
        telling = np.flatnonzero(says)
        return Parsed(given, start, end, bits, clauses, telling, table, said, self.meaning, middle, score, fit)

    def _persons(self, given: Sentences, bits: NDArray[np.uint64]) -> NDArray[np.int64]:
        """Return the words that name a person: behind Mr, behind host or waiter."""
        titled = np.array([word in TITLES or word in self.language.has("person") for word in self.vocabulary], np.bool_)
        named = given.capital & ((bits & NAME) != 0) & ~titled[given.word]
        behind = np.flatnonzero(named[1:]) + 1
        back = np.where(given.word[behind - 1] == self.corpus.vocabulary.get(".", -1), 2, 1)
        return behind[titled[given.word[np.maximum(behind - back, 0)]]]

    def _learned(
        self, centre: tuple[float, ...], reference: tuple[tuple[str, ...], ...], table: pl.DataFrame
    ) -> LearnedWords:
        lexicon = self.lexicon
        common = self._common()
        words = [(word, k) for k, word in enumerate(self.vocabulary) if common[k]]
        weights = {word: round(float(lexicon.weight[k]), 6) for word, k in words}
        names = tuple(word for word, k in words if lexicon.names[k])
        numbers = self.meaning.numbers
        reference = tuple(tuple(word for word in each if common[numbers[word]]) for each in reference)
        open_ = (
            table.filter(~pl.col("sure") & (pl.col("sign") != 0)).unique(("aspect", "sense")).sort("aspect", "sense")
        )
        signs = {f"{a}|{s}": int(sign) for a, s, sign in open_.select("aspect", "sense", "sign").iter_rows()}
        return LearnedWords(
            weights, tuple(sorted(lexicon.kinds)), tuple(sorted(names)), lexicon.person, centre, reference, signs
        )

    def _common(self) -> NDArray[np.bool_]:
        """Tell which words several reviews hold: what few people wrote is not remembered."""
        given, _, _ = self.corpus.counting(self.records["counts"].to_numpy())
        sentence = np.repeat(np.arange(len(given.starts) - 1), np.diff(given.starts))
        review = np.searchsorted(given.reviews, sentence, side="right") - 1
        pairs = np.unique(np.stack([review, given.word], axis=1), axis=0)
        return np.bincount(pairs[:, 1], minlength=len(self.vocabulary)) >= REMEMBERED

    def kept(self, table: pl.DataFrame) -> pl.DataFrame:
        """Return mentions of reviews that count, under known signs, without what must not be shown."""
        records = self.records.select("review", "user", "item", "counts")
        table = table.join(records, on="review", how="left", maintain_order="left").filter("counts").drop("counts")
        earlier = self.old.learned if self.old is not None else None
        if earlier is not None and earlier.signs:
            known = pl.concat_str("aspect", "sense", separator="|").replace_strict(earlier.signs, default=None)
            table = table.with_columns(
                sign=pl.when(pl.col("sure")).then("sign").otherwise(pl.coalesce(known, "sign")).cast(pl.Int8)
            )
        vulgar = self.language.vulgar
        bad = pl.concat_str("aspect", "sense", separator=" ").str.contains(vulgar)
        table = self.dropped("vulgar", table, bad, bool(vulgar) and not self.rules.vulgar)
        titled = pl.Series([f" {self.titles.get(item, '').lower()} " for item in table["item"]], dtype=pl.String)
        table = table.with_columns(title=titled)
        named = pl.col("title").str.contains(pl.concat_str(pl.lit(" "), "aspect", pl.lit(" ")), literal=True)
        named &= pl.col("aspect") != ITSELF
        return self.dropped("titles", table, named, bool(self.titles)).drop("title")

    def dropped(self, rule: str, table: pl.DataFrame, bad: pl.Expr, wanted: bool) -> pl.DataFrame:
        """Return mentions without those that a rule drops, which are counted."""
        if not wanted:
            return table
        bad = bad.fill_null(False)
        out = table.filter(bad)
        text = pl.concat_str("sense", "aspect", separator=" ")
        self.report.add_wordings(rule, out.group_by(text=text).agg(count=pl.len()))
        return table.filter(~bad)

    # -- counting ------------------------------------------------------------------------------------------------------

    def counted(self, parsed: Parsed, threads: int | None) -> list[OfItem]:
        """Ask every item's clauses what is proposed of it."""
        self.choose(parsed)
        own = self._clauses_of_items(parsed)
        earlier = self._earlier()
        items = sorted(own)
        found = []
        with ThreadPoolExecutor(threads or os.cpu_count() or 1) as pool:
            jobs = pool.map(lambda item: self.of_item(item, own[item], parsed, earlier.get(item, [])), items)
            for done, each in enumerate(jobs, 1):
                found.append(each)
                if done % 100 == 0 or done == len(items):
                    self.tell("counting people", done, len(items))
        return found

    def choose(self, parsed: Parsed) -> None:
        """Choose the statements that enough people make, and what is proposed of each item."""
        fresh = self.records.filter("counts")
        size = st.limits_for(fresh.height, fresh["item"].n_unique())
        rules = self.rules
        self.limits = st.Limits(rules.min_count or size.records, rules.min_users, rules.min_items or size.items)
        known = self.old.pool.explanations["id"].to_list() if self.old is not None else []
        table = parsed.table.filter(pl.col("sign") != 0)
        self.chosen = st.shared(table, self.limits, known)
        self.mentioned = st.of_mentions(table, self.chosen)
        self.kinds = self._kinds_of_items(parsed)

    def _kinds_of_items(self, parsed: Parsed) -> set[tuple[str, str]]:
        """Return what people call each item: this pedal, these strings. Aspects that every domain has are none."""
        places = pointed_at(parsed.given, self.vocabulary)
        sentence = np.searchsorted(parsed.given.starts, places, side="right") - 1
        review = np.searchsorted(parsed.given.reviews, sentence, side="right") - 1
        table = pl.DataFrame({"word": parsed.given.word[places], "review": review.astype(np.int32)})
        table = table.join(self.records.select("review", "user", "item"), on="review")
        often = table.group_by("item", "word").agg(n=pl.col("user").n_unique()).filter(pl.col("n") >= POINTED)
        known = {*self.language.tables["alike"], *self.language.tables["alike"].values()}
        named = {(item, self.names.singular(self.vocabulary[word])) for item, word, _ in often.iter_rows()}
        return {(item, name) for item, name in named if name not in known}

    def _clauses_of_items(self, parsed: Parsed) -> dict[str, NDArray[np.int32]]:
        """Return the clauses of every item in the reviews that count."""
        review = parsed.cut.review
        clauses = np.flatnonzero(self.records["counts"].to_numpy()[review]).astype(np.int32)
        placed = pl.DataFrame({"clause": clauses, "item": self.records["item"].gather(review[clauses])})
        parts = placed.partition_by("item", as_dict=True, maintain_order=True)
        return {str(key[0]): part["clause"].to_numpy() for key, part in parts.items()}

    def _earlier(self) -> dict[str, list[st.Proposal]]:
        """Return what an earlier pool holds of each item."""
        if self.old is None:
            return {}
        pool = self.old.pool
        pairs = pool.triplets.select("item", "explanation").unique()
        named = pairs.join(pool.explanations, left_on="explanation", right_on="id").sort("item", "explanation")
        found: dict[str, list[st.Proposal]] = {}
        columns = ("item", "aspect", "sense", "polarity", "explanation")
        for item, aspect, sense, sign, name in named.select(columns).iter_rows():
            found.setdefault(item, []).append(st.Proposal(asked(aspect, sense, sign), name, "opinion"))
        return found

    def of_item(self, item: str, picked: NDArray[np.int32], parsed: Parsed, earlier: list[st.Proposal]) -> OfItem:
        """Ask an item's clauses what is proposed of it."""
        proposals = self.proposals(item, picked, parsed, earlier)
        reviews, number = np.unique(parsed.cut.review[picked], return_inverse=True)
        asking = ask([each.asked for each in proposals], picked, parsed)
        best, which = best_of_reviews(*asking, self.matcher.weights, number.astype(np.int32), len(reviews))
        return OfItem(item, proposals, reviews.astype(np.int32), best, np.where(which >= 0, picked[which], -1))

    def _of_itself(self, item: str, each: st.Proposal) -> bool:
        """Tell whether a statement judges the item as a whole, by what it is called."""
        return each.asked.sense in GENERAL and (item, each.asked.aspect.split()[-1]) in self.kinds

    def proposals(
        self, item: str, picked: NDArray[np.int32], parsed: Parsed, earlier: list[st.Proposal]
    ) -> list[st.Proposal]:
        """Propose what may be said of an item: by its mentions, an earlier pool, and its nouns."""
        proposals = list(self.mentioned.get(item, ()))
        taken = {each.id for each in proposals}
        proposals += [each for each in earlier if each.id not in taken]
        taken.update(each.id for each in earlier)
        fresh = [each for each in st.of_nouns(picked, parsed, self.names, taken) if not self._of_itself(item, each)]
        proposals = [each for each in proposals if not self._of_itself(item, each)]
        title = f" {self.titles.get(item, '').lower()} "
        return proposals + [each for each in fresh if f" {each.asked.aspect} " not in title]  # nouns only
