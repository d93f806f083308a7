"""Tokens, sentences and the parse of review texts."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

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
    assert ["".join(tokens.words[a:b]) for a, b in bounds] == [
        "".join(part.split()) for part in parts
    ]


def test_long_sentences_are_cut_at_their_joints() -> None:
    tokens = tokenize("word " * 60 + "; " + "word " * 60 + "and " + "word " * 100)
    assert tokens.sentences.tolist() == [0, 61, 121, 201, 222]


def test_texts_are_chained() -> None:
    one, two = tokenize("A bed. It"), tokenize("is soft")
    both = chain([one, tokenize(""), two])
    assert both.words == one.words + two.words
    assert both.sentences.tolist() == [0, 3, 4, 6]
    assert both.starts.tolist() == [*one.starts, *two.starts]
    assert (
        chain([]).sentences.tolist()
        == Tokens([], one.starts, one.ends, both.sentences[:1]).sentences.tolist()
    )


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
    train(network, batches(tmp_path, words=100, seed=1), steps=30, rate=0.02)
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
