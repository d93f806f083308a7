"""From opinions to statements: which aspects there are, which sense and polarity an opinion has, what is kept.

A statement is one aspect, one sense, one polarity. Aspects, names of the item itself and polarities that depend on the
domain are learned from the reviews; nothing depends on their order.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import numpy as np
import polars as pl

from whyrank.data.statements import GENERAL, ITSELF
from whyrank.kernels import opinion_rows as kernel
from whyrank.kernels import wordclasses as words
from whyrank.mining.language import LONGEST, SPELLING, cuts, one_edit
from whyrank.mining.nouns import StatementEnglish
from whyrank.mining.opinions import PHRASE, Found, Mentions

LEVELS = PHRASE + 1  # an aspect with its modifier, then with ever fewer of its nouns
SHRINK = 8.0  # imaginary records at the guess that steady a mean rating
CLEAR = 0.2  # standard deviations from the mean that make a polarity
SPOKEN = (kernel.R_PREDICATE, kernel.R_BARE, kernel.R_VERB, kernel.R_NO, kernel.R_AFFECT)  # rules beyond adjectives
MISSING, WORTH = "missing", "worth"
FIXED = {"+": 1, "-": -1, "0": 0}  # polarities of senses that do not depend on their aspect
GUESSES = {"+": 1, "?+": 1, "-": -1, "?-": -1}
AMOUNTS = {
    "large": -1,
    "long": -1,
    "heavy": -1,
    "small": 1,
    "short": 1,
    "light": 1,
}  # of what one would rather not have
UNKNOWN = 3  # marks the guess for a word that no list of senses has: then ratings must agree
KIND = 0.025  # share of a noun's uses that say what the item is
NAMED = 3  # mentions by name that make a sense one that items can have
RARELY = 0.002  # share of what is said with its name below which that is not what items are
ODD = 0.25  # a sense that an aspect has so much less often than others have it was probably said about something else


@dataclass
class Corpus:
    """Everything that was found in the reviews."""

    reviews: list[pl.DataFrame] = field(default_factory=list)
    mentions: list[pl.DataFrame] = field(default_factory=list)
    nouns: dict[int, list[int]] = field(
        default_factory=dict
    )  # hash: how often, with a capital, behind `this`, as what an item is
    texts: dict[int, str] = field(default_factory=dict)  # hash: word
    size: int = 0  # reviews
    length: int = 0  # bytes of their texts

    def add(self, found: Found) -> None:
        """Take in one table's findings; its text follows those before it."""
        self.reviews.append(found.table.with_columns(foreign=pl.Series(found.foreign)))
        self.mentions.append(_frame(found.mentions, self.size, self.length))
        for h, count, capital in zip(*(each.tolist() for each in found.capitals), strict=True):
            self._count(h, (count, capital, 0, 0))
        for h, count in zip(*(each.tolist() for each in found.pointed), strict=True):
            self._count(h, (0, 0, count, 0))
        for h, count in zip(*(each.tolist() for each in found.kinds), strict=True):
            self._count(h, (0, 0, 0, count))
        self.size += found.table.height
        self.length += len(found.text)

    def _count(self, noun: int, counts: Iterable[int]) -> None:
        entry = self.nouns.setdefault(noun, [0, 0, 0, 0])
        for place, count in enumerate(counts):
            entry[place] += count

    def write(self, folder: Path) -> None:
        """Write everything but the texts of the reviews into a folder."""
        pl.concat(self.reviews).write_ipc(folder / "reviews.arrow")
        pl.concat(self.mentions).write_ipc(folder / "mentions.arrow")
        hashes = list(self.nouns)
        counts = np.array([self.nouns[h] for h in hashes], np.int64).reshape(-1, 4)
        words = pl.DataFrame(
            {"hash": list(self.texts), "text": list(self.texts.values())}, {"hash": pl.UInt64, "text": pl.String}
        )
        words.write_ipc(folder / "words.arrow")
        np.savez(folder / "nouns.npz", hashes=np.array(hashes, np.uint64), counts=counts, length=self.length)

    def append(self, folder: Path) -> None:
        """Take in what `write` wrote, behind what is there."""
        reviews = pl.read_ipc(folder / "reviews.arrow")
        mentions = pl.read_ipc(folder / "mentions.arrow")
        stored = np.load(folder / "nouns.npz", allow_pickle=False)
        self.reviews.append(reviews)
        self.mentions.append(mentions.with_columns(pl.col("review") + self.size, pl.col("start") + self.length))
        for noun, counts in zip(stored["hashes"].tolist(), stored["counts"].tolist(), strict=True):
            self._count(noun, counts)
        self.texts.update(pl.read_ipc(folder / "words.arrow").iter_rows())
        self.size += reviews.height
        self.length += int(stored["length"])


def _frame(mentions: Mentions, first: int, offset: int) -> pl.DataFrame:
    columns = {f"a{k}": mentions.aspect[:, k] for k in range(PHRASE)}
    return pl.DataFrame(
        {
            "review": mentions.review + np.int32(first),
            **columns,
            "modifier": mentions.modifier,
            "inner": mentions.inner,
            "opinion": mentions.opinion,
            "adverb": mentions.adverb,
            "sign": mentions.sign,
            "rule": mentions.rule,
            "verbal": mentions.verbal,
            "whole": mentions.whole,
            "start": mentions.start + offset,
            "length": mentions.length,
        }
    )


class Limits(NamedTuple):
    """How often something must be said to count."""

    records: int  # that hold a statement
    users: int
    items: int


def limits_for(reviews: int, items: int) -> Limits:
    """What the size of the data asks for: 3 records in 10,000 reviews, 6 in 100,000, 13 in a million."""
    return Limits(max(3, round(0.2 * max(reviews, 1) ** 0.3)), 2, 2 if items > 20 else 1)


class Vocabulary(NamedTuple):
    """Names of the item itself, and names of persons and brands, by lemma."""

    items: frozenset[str]
    item: str  # the most frequent of them
    names: frozenset[str]


def learn_nouns(corpus: Corpus, language: StatementEnglish, share: float | None) -> Vocabulary:
    """Which nouns name the item (`this hotel`, `it is a lovely hotel`), and which are names (with a capital)."""
    counts: dict[str, list[int]] = {}
    for h, found in corpus.nouns.items():
        entry = counts.setdefault(language.lemma(corpus.texts.get(h, "")), [0, 0, 0, 0])
        for place, count in enumerate(found):
            entry[place] += count
    most = max((pointed for _, _, pointed, _ in counts.values()), default=0)
    items = {
        noun
        for noun, (count, _, pointed, kind) in counts.items()
        if (pointed >= max(5, 0.02 * most) and pointed >= 0.12 * count) or (kind >= 10 and kind >= KIND * count)
    }
    names = set()
    if share is not None:
        names = {
            noun
            for noun, (count, capital, _, _) in counts.items()
            if count >= 2 and capital >= share * count and not language.is_plain(noun)
        }
    item = max(sorted(items), key=lambda noun: counts[noun][2], default="")
    return Vocabulary(frozenset(items), item, frozenset(names))


class Sense(NamedTuple):
    """What an opinion says, whatever its aspect."""

    name: str
    polarity: int | None  # None: depends on the aspect
    guess: int
    wording: str  # as it is written before a noun


def sense_of(language: StatementEnglish, opinion: str, adverb: str, sign: int, rule: int) -> Sense | None:
    """The sense of an opinion word, turned by its negation; None where it says nothing that can be used."""
    if rule == kernel.R_NO:
        return Sense(MISSING, None, 0, "no") if sign == 2 else None
    word = language.word(opinion)
    if word.sense is None and adverb:
        leading = language.word(adverb)
        if leading.sense is None:
            return None
        word, opinion = leading._replace(bits=word.bits), f"{adverb} {opinion}"
    role = language.role_sign(opinion)
    if role is not None and (rule in (kernel.R_VERB, kernel.R_AFFECT, kernel.R_DOES) or word.sense is None):
        good = sign == -2 or (sign != 2 and (role > 0) == (sign == 1))
        return Sense("great", 1, 1, "great") if good else Sense("bad", -1, -1, "bad")
    if word.sense is None:
        if rule == kernel.R_DOES:
            return Sense("broken", -1, -1, "broken") if sign == 2 else None
        if sign != 1 or not word.bits & (words.ADJ | words.PARTICIPLE):
            return None
        return Sense(opinion, None, UNKNOWN * language.lexicon_sign(opinion), opinion)
    polarity = language.sense_polarity[word.sense]
    fixed, guess = FIXED.get(polarity), GUESSES.get(polarity, 0)
    wording = language.adjective(opinion)
    if wording is None:
        return None
    if sign == 1:
        return Sense(word.sense, fixed, guess, wording)
    if sign == -2 and fixed != -1:
        return Sense(word.sense, 1, 1, wording)
    if sign == 2:
        if word.sense == "great":
            return Sense("bad", -1, -1, "bad")
        return (
            Sense(f"too {word.sense}", -1, -1, f"too {wording}") if fixed == 1 else Sense(word.sense, -1, -1, wording)
        )
    other = language.opposites.get(word.sense)
    if other is None:  # nothing that could be written before a noun
        return None
    of_other = language.sense_polarity[other]
    return Sense(other, FIXED.get(of_other), GUESSES.get(of_other, 0), other)


def senses(mentions: pl.DataFrame, texts: dict[int, str], language: StatementEnglish) -> pl.DataFrame:
    """Mentions with their sense: name, fixed (null where it depends), guess, wording; others go."""
    key = ["opinion", "adverb", "sign", "rule"]
    distinct = mentions.select(key).unique()
    rows = []
    for opinion, adverb, sign, rule in distinct.iter_rows():
        found = sense_of(language, texts.get(opinion, ""), texts.get(adverb, ""), sign, rule)
        rows.append((*found[:4], texts.get(opinion, "")) if found else (None,) * 5)
    schema = {"sense": pl.String, "fixed": pl.Int8, "guess": pl.Int8, "wording": pl.String, "spoken": pl.String}
    table = pl.concat([distinct, pl.DataFrame(rows, schema=schema, orient="row")], how="horizontal")
    return mentions.join(table, on=key, how="left").drop_nulls("sense")


def aspects(
    mentions: pl.DataFrame, texts: dict[int, str], language: StatementEnglish, nouns: Vocabulary, least: int
) -> pl.DataFrame:
    """Mentions with their aspect at every level, from the most specific (p0) to the head noun; null where it is none.

    s0 and on are the aspect as it was written. Names of persons and brands, and words for anything, are no aspects.
    """
    key = [f"a{k}" for k in range(PHRASE)] + ["modifier", "inner", "verbal", "whole"]
    distinct = mentions.group_by(key).agg(n=pl.col("review").n_unique())
    fixed = collocations(distinct, texts, language, least)
    rows = []
    for *hashes, modifier, inner, verbal, whole, _ in distinct.iter_rows():
        if whole:
            rows.append((ITSELF if nouns.item else None,) * LEVELS + (nouns.item or None,) * LEVELS + (None,))
            continue
        written = [texts.get(h, "") for h in hashes if h]
        describing = texts.get(modifier, "") if modifier else ""
        rows.append(_levels(written, inner, describing, bool(verbal), language, nouns, fixed))
    schema = {f"p{k}": pl.String for k in range(LEVELS)} | {f"s{k}": pl.String for k in range(LEVELS)}
    schema |= {"named": pl.String}
    found = pl.DataFrame(rows, schema=schema, orient="row")
    found = _spelled(_in_one_order(found, distinct["n"]), distinct["n"], language)
    table = pl.concat([distinct.drop("n"), found], how="horizontal")
    joined = mentions.join(table, on=key, how="left", nulls_equal=True)
    costs = pl.col(f"p{LEVELS - 1}").is_in(sorted(language.cost)) & pl.col("sense").is_in(list(AMOUNTS))
    joined = joined.with_columns(
        base_guess=pl.col("guess"),
        guess=pl.when(costs).then(pl.col("sense").replace_strict(AMOUNTS, default=0)).otherwise("guess").cast(pl.Int8),
    )
    worth = (pl.col("sense") == WORTH) & ~pl.col(f"p{LEVELS - 1}").is_in(sorted(language.cost))
    joined = joined.filter(~worth)
    described = pl.col("modifier") == pl.col("opinion")
    absent = (pl.col("rule") == kernel.R_NO) & (pl.col("modifier") != 0) & pl.col("named").is_null()
    joined = joined.filter(~(described & pl.col("named").is_not_null()) & ~absent)
    joined = joined.drop(*key, "opinion", "adverb", "sign", "named").with_columns(joined["verbal"], joined["whole"])
    return joined.filter(pl.any_horizontal(pl.col([f"p{k}" for k in range(LEVELS)]).is_not_null()))


def _in_one_order(found: pl.DataFrame, counts: pl.Series) -> pl.DataFrame:
    """Aspects of the same words in another order as the more frequent one: quality food is food quality."""
    table = found.select(name="p0", n=counts).drop_nulls().group_by("name").agg(pl.col("n").sum())
    table = table.filter(pl.col("name").str.contains(" ")).with_columns(
        words=pl.col("name").str.split(" ").list.sort().list.join(" ")
    )
    best = table.sort("n", "name", descending=[True, False]).unique("words", keep="first", maintain_order=True)
    other = table.join(best.select("words", into="name"), on="words").filter(pl.col("name") != pl.col("into"))
    names = dict(other.select("name", "into").iter_rows())
    return found.with_columns(pl.col(f"p{k}").replace(names) for k in range(LEVELS)) if names else found


def _spelled(found: pl.DataFrame, counts: pl.Series, language: StatementEnglish) -> pl.DataFrame:
    """Aspects that are a misspelling of a much more frequent one under its name: breakfest, resturant."""
    head = f"p{LEVELS - 1}"
    table = dict(found.select(head, n=counts).drop_nulls().group_by(head).agg(pl.col("n").sum()).iter_rows())
    known: dict[str, list[str]] = {}
    for name in table:
        if language.tags.get(name, "")[:2] == "NN" and len(name) >= SPELLING:
            for cut in cuts(name):
                known.setdefault(cut, []).append(name)
    into = {}
    for name, n in table.items():
        if name not in language.tags and name.isalpha() and SPELLING <= len(name) <= LONGEST:
            near = {each for cut in cuts(name) for each in known.get(cut, ()) if one_edit(name, each)}
            often = sorted(each for each in near if table[each] >= 20 * n)
            if len(often) == 1:
                into[name] = often[0]
    return found.with_columns(pl.col(f"p{k}").replace(into) for k in range(LEVELS)) if into else found


def is_known(ids: Iterable[str]) -> pl.Expr:
    """Whether a mention makes one of the given statements, at any level of its aspect and with any polarity."""
    pairs = sorted({each.rsplit("|", 1)[0] for each in ids})
    levels = (pl.concat_str(f"p{k}", "sense", separator="|").is_in(pairs) for k in range(LEVELS))
    return pl.any_horizontal(levels).fill_null(False) if pairs else pl.lit(False)


def overall(nouns: Vocabulary, language: StatementEnglish) -> pl.Expr:
    """Whether a mention judges the item as a whole: great hotel. A quiet hotel says more, and stays."""
    head = pl.col("p0").str.extract(r"(\S+)$")
    done = pl.col("verbal") & (pl.col("rule") != kernel.R_TO)  # worked perfectly
    return (head.is_in([ITSELF, *sorted(nouns.items | language.wholes)]) | done) & pl.col("sense").is_in(GENERAL)


def steady(mentions: pl.DataFrame, least: int) -> pl.DataFrame:
    """Mentions of aspects that people speak about (`the bed was hard`), not only in idioms (`short notice`)."""
    head = f"p{LEVELS - 1}"
    said = pl.col("rule").is_in(SPOKEN)
    counts = mentions.group_by(head).agg(
        predicates=pl.col("user").filter(said).n_unique(),
        all=pl.col("user").n_unique(),
        verbal=pl.col("verbal").any() | (pl.col(head).first() == ITSELF),
    )
    some = (pl.col("predicates") >= max(2, least // 2)) & (pl.col("predicates") >= 0.1 * pl.col("all"))
    many = (pl.col("predicates") >= least) & (pl.col("predicates") >= 0.15 * pl.col("all"))
    plain = pl.col("sense").is_in(GENERAL)
    known = mentions.join(counts.filter(some | pl.col("verbal")).select(head), on=head, how="semi")
    praised = known.filter(plain).join(counts.filter(many | pl.col("verbal")).select(head), on=head, how="semi")
    return pl.concat([known.filter(~plain), praised])


def of_items(mentions: pl.DataFrame, language: StatementEnglish) -> pl.DataFrame:
    """Mentions without what pronouns say about the item in senses that nobody uses with its name."""
    whole, about = pl.col("whole"), pl.col(f"p{LEVELS - 1}") == ITSELF
    named = mentions.filter(about & ~whole).group_by("sense").agg(n=pl.len())
    named = named.filter((pl.col("n") >= NAMED) & (pl.col("n") >= RARELY * pl.col("n").sum()))
    fit = [word for word in mentions.filter(whole)["spoken"].unique().to_list() if language.describes(word)]
    good = pl.col("sense").is_in(named["sense"].to_list()) & pl.col("spoken").is_in(fit)
    return mentions.filter(~whole | good)


def collocations(
    distinct: pl.DataFrame, texts: dict[int, str], language: StatementEnglish, least: int
) -> frozenset[tuple[str, str]]:
    """Describing words that are part of a name: hot water, front desk, special effects, sticky toffee pudding.

    Such a word stands before this noun far more often than before others. Words that can be opinions must stand before
    nearly half of its mentions; words of clear praise or blame before more than half, and nobody says so with a verb.
    """
    columns = [f"a{k}" for k in range(PHRASE)]
    heads: Counter[str] = Counter()
    before: Counter[str] = Counter()
    pairs: Counter[tuple[str, str]] = Counter()
    nouns = (
        distinct.filter(~pl.col("verbal") & ~pl.col("whole")).group_by("modifier", *columns).agg(n=pl.col("n").sum())
    )
    for modifier, *hashes, n in nouns.iter_rows():
        written = [texts.get(h, "") for h in hashes if h]
        noun = " ".join([*written[:-1], language.lemma(written[-1])])
        heads[noun] += n
        word = texts.get(modifier, "") if modifier else ""
        if word and word not in language.empty:
            before[word] += n
            pairs[word, noun] += n
    total = max(heads.total(), 1)
    found = set()
    for (word, noun), n in pairs.items():
        if n < max(least, 3):
            continue
        known = language.word(word)
        share, lift = n / heads[noun], n * total / (before[word] * heads[noun])
        if known.sense is None and known.polarity in (0, 2):
            good = lift >= 4
        elif known.sense is None or known.sense in GENERAL:
            good = False
        else:
            depends = language.sense_polarity[known.sense].startswith("?")
            good = lift >= 4 and share >= (0.35 if depends else 0.6)
        if good:
            found.add((word, noun))
    return frozenset(found)


def _levels(
    written: list[str],
    inner: int,
    describing: str,
    verbal: bool,
    language: StatementEnglish,
    nouns: Vocabulary,
    fixed: frozenset[tuple[str, str]],
) -> tuple[str | None, ...]:
    """The aspect from specific to general, and how it was written, each padded with null."""
    empty: tuple[str | None, ...] = (None,) * (2 * LEVELS + 1)
    if not written or any(len(word) > 30 or not word[0].isalpha() for word in written):
        return empty
    if verbal:
        if written[-1] in language.implied:
            name = language.implied[written[-1]]
            return (name,) * (2 * LEVELS) + (None,)
        unusual = written[0] in language.light_verbs or language.lexicon_sign(written[0]) < 0  # easy to die
        if not language.word(written[0]).bits & words.VERB or unusual:
            return empty
        stem = " ".join([language.verb_stem(written[0]), *written[1:]])
        return (f"to {stem}",) * LEVELS + (" ".join(written),) * LEVELS + (None,)
    outer, written = written[: len(written) - inner], written[len(written) - inner :]
    written = [part for word in written for part in language.parts(word)]
    if outer and outer[-1] not in language.measures:
        written = [*(language.lemma(word) for word in written), outer[-1]]
    lemmas = [*written[:-1], language.lemma(written[-1])]
    lemmas = [language.same_aspect.get(word, word) for word in lemmas]
    if lemmas[-1] in nouns.names or not language.is_noun(written[-1]):
        return empty
    while len(lemmas) > 1 and (lemmas[0] in nouns.names or lemmas[0] in nouns.items):
        lemmas, written = lemmas[1:], written[1:]
    named = None
    if describing and (describing, " ".join(lemmas)) in fixed:
        lemmas, written, named = [describing, *lemmas], [describing, *written], describing
    if len(lemmas) == 1 and language.stands_alone(written[-1]):
        return empty
    if len(lemmas) == 1 and lemmas[0] in nouns.items:
        lemmas, written = [ITSELF], [nouns.item]
    names = [" ".join(lemmas[k:]) for k in range(len(lemmas))]
    surfaces = [" ".join(written[k:]) for k in range(len(written))]
    names = [language.same_aspect.get(name, name) for name in names]
    if len(names) > 1 and (language.stands_alone(written[-1]) or names[-1] in nouns.items):
        names, surfaces = names[:-1], surfaces[:-1]
    names, surfaces = names[:LEVELS], surfaces[:LEVELS]
    pad = LEVELS - len(names)
    return (*names, *([names[-1]] * pad), *surfaces, *([surfaces[-1]] * pad), named)


def polarities(mentions: pl.DataFrame, level: str) -> pl.DataFrame:
    """Mentions with their polarity: that of the sense, or what ratings say about the aspect and the sense together.

    A mean rating is measured in standard deviations from the mean of all, steadied towards that of the sense, and that
    towards the guess.
    """
    open_ones = mentions.filter(pl.col("fixed").is_null())
    rating = open_ones.filter(pl.col("score").is_not_null())
    by_sense = rating.group_by("sense").agg(
        total=pl.col("score").sum(), n=pl.len(), guess=pl.col("guess").first().clip(-1, 1)
    )
    by_sense = by_sense.select(
        "sense", base=(pl.col("total") + pl.col("guess") * 0.5 * SHRINK) / (pl.col("n") + SHRINK)
    )
    both = rating.group_by(level, "sense").agg(total=pl.col("score").sum(), n=pl.len()).join(by_sense, on="sense")
    both = both.select(level, "sense", mean=(pl.col("total") + pl.col("base") * SHRINK) / (pl.col("n") + SHRINK))
    joined = mentions.join(both, on=[level, "sense"], how="left")
    mean = pl.col("mean")
    guess = pl.col("guess")
    unknown = guess.abs() == UNKNOWN
    learned = pl.when(mean > CLEAR).then(1).when(mean < -CLEAR).then(-1).otherwise(0)
    likely = pl.when(mean * guess.sign() > -CLEAR / 2).then(guess.sign()).otherwise(learned)
    polarity = (
        pl.when(mean.is_null())
        .then(guess.sign())
        .when(unknown & (learned * guess <= 0))
        .then(0)
        .otherwise(pl.when(mean.abs() > CLEAR).then(learned).otherwise(likely))
    )
    return joined.with_columns(polarity=pl.coalesce("fixed", polarity).cast(pl.Int8)).drop("mean")


def choose(mentions: pl.DataFrame, limits: Limits, known: Iterable[str] = ()) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Mentions with their statement (aspect, surface, sense, polarity, id), and those that found none.

    Each mention takes the most specific aspect whose statement enough people make; where not even its last noun gets
    there, praise and blame count as such. Plain praise and blame, which say the
    least, need twice as many people.
    """
    old = list(known)
    taken, left = [], mentions.with_columns(said=pl.col("wording"))
    for level in (*range(LEVELS), LEVELS):
        aspect, surface = f"p{min(level, LEVELS - 1)}", f"s{min(level, LEVELS - 1)}"
        if level == LEVELS:
            left = _generalized(left)
        left = polarities(left.drop("polarity", "id", strict=False), aspect)
        sign = pl.col("polarity").replace_strict({-1: "-", 0: "0", 1: "+"}, return_dtype=pl.String)
        left = left.with_columns(id=pl.concat_str(aspect, "sense", sign, separator="|"))
        counts = (
            left.filter(pl.col("polarity") != 0)
            .group_by("id")
            .agg(
                users=pl.col("user").n_unique(),
                items=pl.col("item").n_unique(),
                pairs=pl.struct("user", "item").n_unique(),
                plain=pl.col("sense").first().is_in(GENERAL),
            )
        )
        least = pl.when(pl.col("plain")).then(2 * limits.records).otherwise(limits.records)
        enough = counts.filter(
            (pl.col("pairs") >= least) & (pl.col("users") >= limits.users) & (pl.col("items") >= limits.items)
        )
        chosen = pl.col("id").is_in([*enough["id"].to_list(), *old])
        taken.append(left.filter(chosen).with_columns(aspect=pl.col(aspect), surface=pl.col(surface)))
        left = left.filter(~chosen)
    return _told(pl.concat(taken), left, limits.records, old)


def _told(taken: pl.DataFrame, left: pl.DataFrame, least: int, known: list[str]) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Plain praise and blame only of aspects about which people also say something specific, or very many speak."""
    plain = pl.col("sense").is_in(GENERAL)
    noun = pl.col("aspect").str.extract(r"(\S+)$")
    rich = taken.filter(~plain).select(noun.unique()).to_series().to_list()
    often = (
        taken.filter(plain).group_by("id").agg(n=pl.struct("user", "item").n_unique()).filter(pl.col("n") >= 4 * least)
    )
    good = ~plain | noun.is_in(rich) | pl.col("id").is_in([*often["id"].to_list(), *known])
    said = pl.col("rule").is_in(SPOKEN) | pl.col("verbal") | (pl.col("aspect") == ITSELF)
    counts = taken.group_by("id").agg(n=pl.struct("user", "item").n_unique(), said=said.any())
    named = counts.filter(~pl.col("said") & (pl.col("n") < least + 2))["id"].to_list()  # fresh lime, empty bottle
    good &= ~pl.col("id").is_in(named) | pl.col("id").is_in(known)
    return taken.filter(good), pl.concat([left, taken.filter(~good).select(left.columns)])


def _generalized(mentions: pl.DataFrame) -> pl.DataFrame:
    """Mentions of clear polarity as plain praise or blame of their aspect."""
    fixed = pl.col("fixed")
    named = pl.col(f"p{LEVELS - 1}") != ITSELF
    clear = mentions.filter((fixed != 0) & (pl.col("sense") != MISSING) & ~pl.col("verbal") & named)
    praise = fixed > 0
    return clear.with_columns(
        sense=pl.when(praise).then(pl.lit("great")).otherwise(pl.lit("bad")),
        wording=pl.when(praise).then(pl.lit("great")).otherwise(pl.lit("bad")),
    )


def odd_pairs(mentions: pl.DataFrame) -> pl.DataFrame:
    """Mentions without those whose sense hardly ever goes with their aspect: delicious service, helpful food."""
    head = f"p{LEVELS - 1}"
    counts = mentions.group_by(head, "sense").agg(n=pl.len())
    total = max(mentions.height, 1)
    counts = counts.with_columns(expected=pl.col("n").sum().over(head) * pl.col("n").sum().over("sense") / total)
    odd = counts.filter((pl.col("n") < ODD * pl.col("expected")) & ~pl.col("sense").is_in([*GENERAL, MISSING]))
    return mentions.join(odd.select(head, "sense"), on=[head, "sense"], how="anti")


def idle_absences(mentions: pl.DataFrame) -> pl.DataFrame:
    """Mentions without `no clue`, `no excuse`: absences of what is hardly ever there."""
    head = f"p{LEVELS - 1}"
    absent = pl.col("sense") == MISSING
    idle = mentions.group_by(head).agg(share=absent.mean()).filter(pl.col("share") > 0.5)
    return mentions.join(idle.select(head), on=head, how="anti")


def describe(taken: pl.DataFrame, language: StatementEnglish) -> tuple[pl.DataFrame, pl.DataFrame]:
    """The wordings of every statement, and the statements: id, text, aspect, sense, polarity.

    A statement is written as most people say it: the opinion word and the noun that are most frequent, each by itself.
    """
    people = pl.struct("user", "item").n_unique()
    phrase = (
        pl.when(pl.col("verbal") & (pl.col("rule") == kernel.R_TO))
        .then(pl.concat_str("said", pl.lit("to"), "surface", separator=" "))
        .when(pl.col("verbal") & pl.col("aspect").str.starts_with("to "))
        .then(pl.concat_str("surface", "spoken", separator=" "))
        .otherwise(pl.concat_str("said", "surface", separator=" "))
    )
    taken = taken.with_columns(phrase=phrase)
    wordings = taken.group_by("id", "key", "phrase").agg(count=people)
    wordings = wordings.select(
        explanation="id",
        count=pl.col("count").cast(pl.Int64),
        text="phrase",
        normalized=pl.concat_str("key", "phrase", separator="#"),
    ).sort("explanation", "count", "text", descending=[False, True, False])

    pairs = taken.select("aspect", "surface").unique()
    own = [
        surface if aspect == ITSELF or language.singular(surface) == aspect else aspect
        for aspect, surface in pairs.iter_rows()
    ]
    taken = taken.join(pairs.with_columns(own=pl.Series(own, dtype=pl.String)), on=["aspect", "surface"], how="left")

    def most(column: str) -> pl.DataFrame:
        counts = taken.group_by("id", column).agg(n=people).sort("id", "n", column, descending=[False, True, False])
        return counts.unique("id", keep="first", maintain_order=True).select("id", column)

    facts = taken.group_by("id").agg(
        pl.col("aspect", "sense", "polarity").first(),
        verbal=(pl.col("verbal") & pl.col("aspect").str.starts_with("to ")).all(),
    )
    table = facts.join(most("wording"), on="id").join(most("own"), on="id").join(most("phrase"), on="id")
    noun = pl.concat_str("wording", "own", separator=" ")
    text = pl.when("verbal").then("phrase").otherwise(noun)
    aspect = pl.when(pl.col("text").str.contains(" to ")).then(pl.lit(ITSELF)).otherwise("aspect").alias("aspect")
    table = table.with_columns(text=text)
    return wordings, table.select("id", "text", aspect, "sense", "polarity").sort("id")


def scores_of(ratings: pl.Series) -> pl.Series:
    """Ratings in standard deviations from their mean; null where there are none, or no two that differ."""
    spread = ratings.std()
    if not isinstance(spread, float) or not spread:
        return pl.Series("score", [None] * len(ratings), dtype=pl.Float64)
    return ((ratings - ratings.mean()) / spread).alias("score")
