"""What an opinion is about: aspects, names of the item itself, names of persons, all learned from the reviews."""

from __future__ import annotations

from collections import Counter
from typing import NamedTuple

import polars as pl

from whyrank.data.statements import GENERAL, ITSELF
from whyrank.mining import _opinion_rows as kernel
from whyrank.mining import _wordclasses as words
from whyrank.mining.corpus import Corpus
from whyrank.mining.language import LONGEST, SPELLING, cuts, one_edit
from whyrank.mining.nouns import StatementEnglish
from whyrank.mining.opinions import PHRASE
from whyrank.mining.senses import WORTH

LEVELS = PHRASE + 1  # an aspect with its modifier, then with ever fewer of its nouns
AMOUNTS = {
    "large": -1,
    "long": -1,
    "heavy": -1,
    "small": 1,
    "short": 1,
    "light": 1,
}  # of what one would rather not have
PLURAL = 0.3  # share of a noun's uses in the plural below which that means several items
KIND = 0.025  # share of a noun's uses that say what the item is


class Nouns(NamedTuple):
    """Names of the item itself, and names of persons and brands, by lemma."""

    items: frozenset[str]
    item: str  # the most frequent of them
    names: frozenset[str]
    others: frozenset[str]  # their plurals, as written, where these mean other items: the hotels around


def learn_nouns(corpus: Corpus, language: StatementEnglish, share: float | None) -> Nouns:
    """Which nouns name the item (`this hotel`, `it is a lovely hotel`), and which are names (with a capital)."""
    counts: dict[str, list[int]] = {}
    unusual: set[str] = set()  # lemmas with a form that no lexicon has: hanks, though it has hank
    for h, found in corpus.nouns.items():
        written = corpus.texts.get(h, "")
        entry = counts.setdefault(language.lemma(written), [0, 0, 0, 0])
        if not language.is_plain(written):
            unusual.add(language.lemma(written))
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
            if count >= 2 and capital >= share * count and (noun in unusual or not language.is_plain(noun))
        }
    if not items:  # few reviews: a word that mostly names items will do
        wholes = {noun for noun in counts if noun in language.wholes}
        items = set(sorted(wholes, key=lambda noun: (-counts[noun][0], noun))[:1])
    item = max(sorted(items), key=lambda noun: counts[noun][2], default="")
    others = set()
    for h, (count, *_) in corpus.nouns.items():
        written = corpus.texts.get(h, "")
        noun = language.lemma(written)
        if noun in items and language.singular(written) != written and count < PLURAL * counts[noun][0]:
            others.add(written)
    return Nouns(frozenset(items), item, frozenset(names), frozenset(others))


def aspects(
    mentions: pl.DataFrame, texts: dict[int, str], language: StatementEnglish, nouns: Nouns, least: int
) -> pl.DataFrame:
    """Mentions with their aspect at every level, from the most specific (p0) to the head noun; null where it is none.

    s0 and on are the aspect as it was written. Names of persons and brands, and words for anything, are no aspects.
    """
    key = [f"a{k}" for k in range(PHRASE)] + ["modifier", "inner", "verbal", "whole"]
    review = pl.col("review")
    distinct = mentions.group_by(key).agg(n=review.n_unique(), inside=review.filter(~pl.col("alone")).n_unique())
    fixed = collocations(distinct, texts, language, least)
    rows = []
    for *hashes, modifier, inner, verbal, whole, _, _ in distinct.iter_rows():
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
    table = pl.concat([distinct.drop("n", "inside"), found], how="horizontal")
    joined = mentions.join(table, on=key, how="left", nulls_equal=True)
    costs = pl.col(f"p{LEVELS - 1}").is_in(sorted(language.cost)) & pl.col("sense").is_in(list(AMOUNTS))
    joined = joined.with_columns(
        base_guess=pl.col("guess"),
        guess=pl.when(costs).then(pl.col("sense").replace_strict(AMOUNTS, default=0)).otherwise("guess").cast(pl.Int8),
    )
    joined = _affordable(joined, language)
    worth = (pl.col("sense") == WORTH) & ~pl.col(f"p{LEVELS - 1}").is_in(sorted(language.cost))
    joined = joined.filter(~worth)
    described = pl.col("modifier") == pl.col("opinion")
    absent = (pl.col("rule") == kernel.R_NO) & (pl.col("modifier") != 0) & pl.col("named").is_null()
    acts = pl.col("verbal") & (pl.col("rule") == kernel.R_ADVERB) & pl.col("p0").str.starts_with("to ")
    told = pl.col("s0").str.contains(r"(?:s|ed)$")  # runs smoothly, ran; not what one should do: play casually
    objects = (pl.col("rule") == kernel.R_TO) & ~pl.col("verbal")  # hard to get a table: no hard table
    joined = joined.filter(~objects)
    joined = joined.filter(~(described & pl.col("named").is_not_null()) & ~absent & (~acts | told))
    joined = joined.drop(*key, "opinion", "adverb", "sign", "named").with_columns(joined["verbal"], joined["whole"])
    return joined.filter(pl.any_horizontal(pl.col([f"p{k}" for k in range(LEVELS)]).is_not_null()))


def _affordable(mentions: pl.DataFrame, language: StatementEnglish) -> pl.DataFrame:
    """Mentions in which fair, low and cheap prices are affordable ones."""
    own = {word: language.senses[word][0] for word in sorted(language.modest)}
    modest = pl.col("wording").replace_strict(own, default=None, return_dtype=pl.String) == pl.col("sense")
    paid = (modest & pl.col(f"p{LEVELS - 1}").is_in(sorted(language.paid))).fill_null(False)
    paid &= (pl.col("fixed") != -1).fill_null(True)  # too low is no praise
    return mentions.with_columns(
        sense=pl.when(paid).then(pl.lit("affordable")).otherwise("sense"),
        fixed=pl.when(paid).then(pl.lit(1, pl.Int8)).otherwise("fixed"),
    )


def _levels(
    written: list[str],
    inner: int,
    describing: str,
    verbal: bool,
    language: StatementEnglish,
    nouns: Nouns,
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
    if len(lemmas) == 1 and written[-1] in nouns.others:
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


def collocations(
    distinct: pl.DataFrame, texts: dict[int, str], language: StatementEnglish, least: int
) -> frozenset[tuple[str, str]]:
    """Describing words that are part of a name: hot water, front desk, special effects, sticky toffee pudding.

    Such a word stands before this noun far more often than before others. Words that can be opinions must stand before
    nearly half of its mentions; words of clear praise or blame before more than half, and nobody says so with a verb.
    What mostly makes a fragment with its noun (`Clean rooms.`) is no part of a name.
    """
    columns = [f"a{k}" for k in range(PHRASE)]
    heads: Counter[str] = Counter()
    before: Counter[str] = Counter()
    pairs: Counter[tuple[str, str]] = Counter()
    within: Counter[tuple[str, str]] = Counter()
    named = distinct.filter(~pl.col("verbal") & ~pl.col("whole"))
    nouns = named.group_by("modifier", *columns).agg(pl.col("n", "inside").sum())
    for modifier, *hashes, n, inside in nouns.iter_rows():
        written = [texts.get(h, "") for h in hashes if h]
        noun = " ".join([*written[:-1], language.lemma(written[-1])])
        heads[noun] += n
        word = texts.get(modifier, "") if modifier else ""
        if word and word not in language.empty:
            before[word] += n
            pairs[word, noun] += n
            within[word, noun] += inside
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
            good = lift >= 4 and share >= (0.35 if depends else 0.6) and 2 * within[word, noun] > n
        if good:
            found.add((word, noun))
    return frozenset(found)


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
