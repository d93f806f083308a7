"""Tokens, sentences and the parse of review texts."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from whyrank.mining._parse_kernels import choose_heads
from whyrank.mining.parse import LABELS, TAGS, load
from whyrank.mining.tokens import LONGEST_SENTENCE, Tokens, chain, tokenize

# -- tokens ----------------------------------------------------------------------------------------

PIECES = st.sampled_from(
    [
        *"ab1.!?,:;-'’&/\\*_@#)(\" \n\t…é½😀",
        "n't",
        "dont",
        "...",
        "Mr",
        ":)",
        "www.",
        ".com",
        " The ",
        "and ",
    ]
)
TEXTS = st.one_of(st.text(), st.lists(PIECES, max_size=200).map("".join))


@given(TEXTS)
def test_offsets_give_the_words_back_and_sentences_cover_them(text: str) -> None:
    tokens = tokenize(text)
    assert [text[a:b] for a, b in zip(tokens.starts, tokens.ends, strict=True)] == tokens.words
    assert "".join(tokens.words) == "".join(text.split())
    lengths = tokens.sentences[1:] - tokens.sentences[:-1]
    assert all((lengths > 0) & (lengths <= LONGEST_SENTENCE))
    assert (tokens.sentences[0], tokens.sentences[-1]) == (0, len(tokens.words))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("I can't, won’t, dont", "I|ca|n't|,|wo|n’t|,|do|nt"),
        ("cannot it's they'll GUESTS' Don'T", "can|not|it|'s|they|'ll|GUESTS|'|Do|n'T"),
        ("a 5-star wi-fi, B&B; mp3", "a|5-star|wi-fi|,|B&B|;|mp3"),
        ("10:30am on the 2nd, $1,000.50 for 4/5", "10:30|am|on|the|2nd|,|$|1,000.50|for|4/5"),
        (
            "see https://a.b/c?d=1. or x@y.com, booking.com",
            "see|https://a.b/c?d=1|.|or|x@y.com|,|booking.com",
        ),
        ("great:) w/o U.S. wait....!!", "great|:)|w/o|U.S.|wait|....|!!"),
        ("want front", "want|front"),
    ],
)
def test_words(text: str, words: str) -> None:
    assert tokenize(text).words == words.split("|")


@pytest.mark.parametrize(
    "text",
    [
        "It was great.|The bed was soft.|but short !!|ok",
        'He said "very nice."|We agree (mostly!)|Fine.',
        "It was nice (very!) and clean.|Good",
        "Mr. Smith met J. Doe at approx. 5 p.m. and left at 6 p.m.|We stayed",
        "Great place :)|will return. :)|Thanks",
        "So...not bad...|The end",
        "1. Clean\n|2. Quiet\n|no end here",
        "We paid $5.50 at booking.com.|Next",
        "What?|Why?!|Yes.",
    ],
)
def test_sentences(text: str) -> None:
    parts = text.split("|")
    whole = parts[0] + ("" if parts[0].endswith("great.") else " ") + " ".join(parts[1:])
    tokens = tokenize(whole)
    bounds = zip(tokens.sentences[:-1], tokens.sentences[1:], strict=True)
    assert ["".join(tokens.words[a:b]) for a, b in bounds] == ["".join(part.split()) for part in parts]


def test_long_sentences_are_cut_at_their_joints() -> None:
    tokens = tokenize("word " * 60 + "; " + "word " * 60 + "and " + "word " * 100)
    assert tokens.sentences.tolist() == [0, 61, 121, 201, 222]


def test_texts_are_chained() -> None:
    one, two = tokenize("A bed. It"), tokenize("is soft")
    both = chain([one, tokenize(""), two])
    assert both.words == one.words + two.words
    assert both.sentences.tolist() == [0, 3, 4, 6]
    assert both.starts.tolist() == [*one.starts, *two.starts]
    assert chain([]).sentences.tolist() == Tokens([], one.starts, one.ends, both.sentences[:1]).sentences.tolist()


# -- parses ------------------------------------------------------------------------------------

WORDS = st.sampled_from([*"the bed was not soft and I liked it , . !".split(), "x", "😀"])  # noqa: SIM905
SENTENCES = st.lists(st.lists(WORDS, min_size=1, max_size=90), max_size=6)


@given(SENTENCES)
def test_parses_are_trees_and_do_not_depend_on_what_is_parsed_together(
    sentences: list[list[str]],
) -> None:
    parser = load()
    parts = [parser.parse(tokens_of([words])) for words in sentences]
    whole = parser.parse(tokens_of(sentences))
    firsts = np.cumsum([0, *map(len, sentences)])
    alone = [part.heads + first for part, first in zip(parts, firsts, strict=False)]
    assert whole.heads.tolist() == np.concatenate([*alone, []]).tolist()
    assert whole.labels.tolist() == np.concatenate([*(part.labels for part in parts), []]).tolist()
    assert whole.tags.tolist() == np.concatenate([*(part.tags for part in parts), []]).tolist()
    for part in parts:
        chosen = np.where(part.heads == np.arange(len(part.heads)), 0, part.heads + 1)
        assert is_forest(chosen)
        assert all((part.heads >= 0) & (part.heads < len(part.heads)))


def tokens_of(sentences: list[list[str]]) -> Tokens:
    """Return sentences as tokens without offsets."""
    ends = np.cumsum([0, *map(len, sentences)]).astype(np.int32)
    return Tokens([word for words in sentences for word in words], ends[:0], ends[:0], ends)


def test_texts_are_parsed_the_same_by_any_number_of_threads(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    texts = [
        "The bed was soft. I slept well!",
        "",
        "No view",
        "Great host, but n’t cheap\nAgain",
    ] * 9
    parser = load()
    alone = [(tokenize(text), parser.parse(tokenize(text))) for text in texts]
    for threads, block in ((1, 10**6), (1, 1), (2, 50), (3, 200)):
        monkeypatch.setattr("whyrank.mining.parse.BLOCK", block)
        together = list(parser.parse_texts(iter(texts), threads))
        for (tokens, parse), (one, other) in zip(alone, together, strict=True):
            assert tokens.words == one.words
            for expected, found in zip(parse, other, strict=True):
                assert expected.tolist() == found.tolist()


def test_sums_of_products_are_whole_numbers_that_float32_holds() -> None:
    parser = load()
    matrices = [layer.matrix for layer in parser.layers]
    matrices += [choice.matrix for choice in (parser.tag, parser.roles, parser.label)]
    for matrix in matrices:
        assert np.array_equal(matrix, np.rint(matrix))
        assert np.abs(matrix).max() <= 127
        assert len(matrix) * 127**2 < 2**24


def test_a_cycle_is_broken_where_it_costs_least() -> None:
    # Words 0 and 1 choose each other, 2 hangs on 1; word 1 loses less when it becomes a root.
    scores = np.array([[0, 9, 0], [8, 6, 7], [0, 5, 1]], np.int32)
    roles = np.zeros((3, 16), np.int16)
    roles[:, 4:7] = scores.T  # what each word is as a head of the three
    roles[:, :4] = 0
    roles[[0, 1, 2], [0, 1, 2]] = 1
    root = np.zeros((2, 4), np.int8)
    root[0, :3] = [0, 6, 1]
    heads = np.empty(3, np.int32)
    ends, distance = np.array([0, 3], np.int32), np.zeros(4, np.int32)
    choose_heads(roles, ends, root, distance, heads)
    assert heads.tolist() == [1, 1, 1]


@pytest.mark.parametrize(
    ("text", "arcs"),
    [
        (
            "The bed was very comfortable.",
            "bed nsubj was|comfortable acomp was|very advmod comfortable",
        ),
        ("The bed was not comfortable.", "not neg was|bed nsubj was"),
        ("We loved the soft bed.", "We nsubj loved|soft amod bed|bed dobj loved"),
        (
            "It has a big kitchen and a small garden.",
            "big amod kitchen|garden conj kitchen|small amod garden",
        ),
        ("The staff did n't help us.", "n't neg help|staff nsubj help|us dobj help"),
        ("The host's dog barked.", "host poss dog|'s case host|dog nsubj barked"),
        ("It leaves my skin soft.", "It nsubj leaves|my poss skin"),
        ("There is no pool.", "There expl is|no det pool|pool attr is"),
        (
            "The food was cold but the wine was good.",
            "food nsubj was|cold acomp was|wine nsubj was|good acomp was",
        ),
        (
            "I would recommend this place to families.",
            "would aux recommend|place dobj recommend|to prep recommend|families pobj to",
        ),
        ("The room that we had was tiny.", "had relcl room|room nsubj was|tiny acomp was"),
        ("It is close to the station.", "close acomp is|to prep close|station pobj to"),
        (
            "The breakfast was served late.",
            "breakfast nsubjpass served|was auxpass served|late advmod served",
        ),
        (
            "great location and friendly staff",
            "great amod location|staff conj location|friendly amod staff",
        ),
    ],
)
def test_sentences_worked_by_hand(text: str, arcs: str) -> None:
    tokens = tokenize(text)
    parse = load().parse(tokens)
    names = [LABELS[n] for n in parse.labels]
    heads = [tokens.words[i] for i in parse.heads]
    found = {" ".join(arc) for arc in zip(tokens.words, names, heads, strict=True)}
    assert set(arcs.split("|")) <= found


def test_tags() -> None:
    tokens = tokenize("The two beds felt softer than mine and I slept well!")
    tags = [TAGS[n] for n in load().parse(tokens).tags]
    assert " ".join(tags) == "DT CD NNS VBD JJR IN PRP CC PRP VBD RB ."


# -- training ----------------------------------------------------------------------------------


def test_the_parser_computes_what_the_network_learned(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    from whyrank.lab.parser.silver import Tree, write_shard
    from whyrank.lab.parser.train import Network, batch_of, batches, read_silver, train, weights_of

    words = "the soft bed was n't very new , but nice and big .".split()  # noqa: SIM905
    rng = np.random.default_rng(1)
    trees = []
    for _ in range(60):
        n = int(rng.integers(2, 14))
        heads = [0, *(int(rng.integers(0, i)) - i for i in range(1, n))]
        names = [str(name) for name in rng.choice(LABELS, n)]
        trees.append(Tree(words[:n], heads, names, [str(tag) for tag in rng.choice(TAGS, n)]))
    write_shard(tmp_path / "000.npz", trees)
    torch.manual_seed(1)
    network = Network()
    train(network, batches(tmp_path, words=100, seed=1), steps=12, rate=0.03)
    np.savez(tmp_path.with_suffix(".npz"), **weights_of(network))

    every = np.arange(len(trees))
    batch = batch_of(read_silver(tmp_path), every, np.zeros(len(trees), int))
    tags, arcs, own, below = network.eval()(batch)
    heads = arcs.argmax(2)
    labels = network.label_scores(own, below, heads).argmax(2)
    ends = np.cumsum([0, *(len(tree.words) for tree in trees)]).astype(np.int32)
    chained = [word for tree in trees for word in tree.words]
    tokens = Tokens(chained, ends[:0], ends[:0], ends)
    parse = load(tmp_path.with_suffix(".npz")).parse(tokens)
    agree = []
    for i in (i for i in every if is_forest(heads[i, : len(trees[i].words)].numpy())):
        n = len(trees[i].words)
        rows = slice(ends[i], ends[i + 1])
        relative = parse.heads[rows] - ends[i]
        agree += [np.where(relative == np.arange(n), 0, relative + 1) == heads[i, :n].numpy()]
        agree += [parse.labels[rows] == labels[i, :n].numpy()]
        agree += [parse.tags[rows] == tags[i, :n].argmax(1).numpy()]
    assert len(agree) > 15
    assert np.concatenate(agree).mean() > 0.98  # the network's biases are not rounded


def is_forest(heads: np.ndarray) -> bool:
    """Tell whether following heads (from 1, 0 a root) always ends at a root."""
    at = np.arange(len(heads)) + 1
    for _ in heads:
        at = np.where(at > 0, heads[at - 1], 0)
    return not at.any()
