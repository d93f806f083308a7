"""Opinions about aspects, found by the rules of English in sentences of tokens."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("textblob")
pytest.importorskip("vaderSentiment")

from whyrank.errors import MissingExtra
from whyrank.mining._opinions import find_opinions
from whyrank.mining.language import English, penn_tags


@pytest.fixture(scope="module")
def english() -> English:
    return English()


def found(english: English, sentence: str) -> set[tuple[str, str, int]]:
    """Aspect, opinion (phrases as one word) and polarity of every opinion in a sentence of tokens."""
    words = sentence.split()
    tokens = english.code_tokens(words, np.array([0, len(words)]))
    rows, tags = find_opinions(tokens.bits, tokens.sense, tokens.ends)
    assert len(tags) == len(words)
    triplets = set()
    for _, a0, a1, o0, o1, sign, _ in rows.tolist():
        polarity = english.polarity(tokens.texts[o1], tokens.texts[o0] if o0 < o1 else "", sign, tokens.texts[a1])
        triplets.add((" ".join(words[a0 : a1 + 1]), " ".join(tokens.texts[o0 : o1 + 1]), polarity))
    return triplets


JUDGED = {
    "comfortable bed": {("bed", "comfortable", 1)},
    "the bed was really comfortable": {("bed", "comfortable", 1)},
    "bed and pillows were comfy": {("bed", "comfy", 1), ("pillows", "comfy", 1)},
    "loved the rooftop bar": {("rooftop bar", "loved", 1)},
    "the staff could not have been friendlier": {("staff", "friendlier", 1)},
    "not a great breakfast": {("breakfast", "great", -1)},
    "breakfast was nothing special": {("breakfast", "nothing-special", 0)},
    "the room was too small": {("room", "small", -1)},
    "no hot water": {("hot water", "no", -1)},
    "great food but terrible service": {("food", "great", 1), ("service", "terrible", -1)},
    "I found the bed hard": {("bed", "hard", -1)},
    "friendly , helpful and attentive staff": {
        ("staff", "friendly", 1),
        ("staff", "helpful", 1),
        ("staff", "attentive", 1),
    },
    "the soup , which was cold , came late": {("soup", "cold", -1), ("soup", "late", -1)},
    "perfectly located": {("located", "perfectly", 1)},
    "I tried the salmon , it was great": {("salmon", "great", 1)},
    "we ordered the noodles and they were bland": {("noodles", "bland", -1)},
    "the pasta I had was delicious": {("pasta", "delicious", 1)},
    "the waiter who served us was rude": {("waiter", "rude", -1)},
    "the food at this place is excellent": {("food", "excellent", 1)},
    "the garden is a great place": {("garden", "great", 1)},
    "the screen is one of the best": {("screen", "best", 1)},
    "the only problem is the battery": {("battery", "problem", -1)},
    "the best part was the soundtrack": {("soundtrack", "best", 1)},
    "the pasta is a must": {("pasta", "must", 1)},
    "try the lamb": {("lamb", "try", 1)},
    "great battery , speed , display": {("battery", "great", 1), ("speed", "great", 1), ("display", "great", 1)},
    "the food was great and so was the service": {("food", "great", 1), ("service", "great", 1)},
    "the screen could be better": {("screen", "better", -1)},
    "I have never had better pizza": {("pizza", "better", 1)},
    "I have had better pizza": {("pizza", "better", -1)},
    "the app stopped working": {("app", "working", -1)},
    "the screen froze": {("screen", "froze", -1)},
    "plenty of space": {("space", "plenty", 1)},
    "not enough space": {("space", "enough", -1)},
    "the lack of light": {("light", "lack", -1)},
    "beautifully decorated rooms": {("rooms", "beautifully decorated", 1)},
    "the sauce was not too spicy": {("sauce", "spicy", 1)},
    "the seats are less comfortable": {("seats", "comfortable", -1)},
    "the food was not only fresh but also cheap": {("food", "fresh", 1), ("food", "cheap", 1)},
    "none of the songs was good": {("songs", "good", -1)},
    "not worth the price": {("price", "worth", -1)},
    "the prices are high": {("prices", "high", -1)},
    "I do n't think the sound is clear": {("sound", "clear", -1)},
    "I did not find the staff friendly": {("staff", "friendly", -1)},
    "I would n't call the sound warm": {("sound", "warm", -1)},
    "I think the sound is clear": {("sound", "clear", 1)},
    "for the price I think the sound is great": {("sound", "great", 1)},
    "after two weeks of commuting I can say the app is useful": {("app", "useful", 1)},
    "the waiter who served our table was friendly": {("waiter", "friendly", 1)},
    "I was disappointed with the ending": {("ending", "disappointed", -1)},
    "easy to use": {("use", "easy", 1)},
    "I can not recommend this game enough": {("game", "recommend", 1)},
    "ca n't get enough of the sauce": {("sauce", "get-enough", 1)},
    "not a fan of the ending": {("ending", "fan", -1)},
    "too many stairs": {("stairs", "many", -1)},
    "this cream left my skin soft but it smells awful": {("skin", "soft", 1), ("cream", "awful", -1)},
    "the staff was freindly and magnificant": {("staff", "freindly", 1), ("staff", "magnificant", 1)},
    "the plot is out of this world": {("plot", "out-of-this-world", 1)},
    # films, books, music, products, flats
    "battery lasts two days": {("battery", "lasts", 1)},
    "the battery only lasts an hour": {("battery", "lasts", -1)},
    "the battery does n't last long": {("battery", "last", -1)},
    "it keeps crashing": {("it", "crashing", -1)},
    "it stopped working after a month": {("it", "working", -1)},
    "I could n't put it down": {("down", "could-n't-put-it-down", 1)},
    "it kept me on the edge of my seat": {("seat", "on-the-edge-of-my-seat", 1)},
    "too long for kids": {("long", "long", -1)},
    "easy to clean": {("clean", "easy", 1)},
    "the book is hard to follow": {("follow", "hard", -1)},
    "comfortable to wear": {("wear", "comfortable", 1)},
    "the flat was clean": {("flat", "clean", 1)},
    "the remote feels sturdy": {("remote", "sturdy", 1)},
    "noise cancelling is amazing": {("noise cancelling", "amazing", 1)},
    "charging is fast": {("charging", "fast", 1)},
    "the author 's writing is beautiful": {("author 's writing", "beautiful", 1)},
    "the check-in was smooth": {("check-in", "smooth", 1)},
    "Anna was a great host": {("Anna", "great", 1), ("host", "great", 1)},
    "it is close to the station": {("it", "close", 1)},
    "the jokes fall flat": {("jokes", "fall-flat", -1)},
    "the effects hold up": {("effects", "hold-up", 1)},
    "the teacher speaks too fast": {("teacher", "fast", -1)},
    "it left my hair feeling soft": {("hair", "soft", 1)},
    "too many ads": {("ads", "many", -1)},
    "plenty of space and great sound": {("space", "plenty", 1), ("sound", "great", 1)},
    "full of plot holes": {("plot", "holes", -1)},
}

PLAIN = (
    "would be better with air conditioning",
    "the hotel next door is noisy",
    "the restaurant across the street is terrible",
    "the room has a desk and a chair",
    "we arrived on a Tuesday",
    "is the pool warm ?",
    "I would stay if the rooms were clean",
    "I wish the screen was brighter",
    "my previous phone was slow",
    "breakfast is served from seven to ten",
    "the book has 300 pages",
    "it comes with a charger and a cable",
    "the film was released in 1999",
    "I bought this phone for my daughter",
    "the waiter brought the menu",
    "check-in starts at three",
    "the album has twelve songs",
    "apply the cream twice a day",
    "I used fresh basil instead of dried basil",
    "I added chopped onions and some fresh spinach",
    "use good olive oil",
    "serve with crusty bread",
    "the competitor has better search",
    "Spotify has better playlists",
    "the competition is cheaper",
    "my dog loves it",
    "the plot is full of people",
    "I last visited in May",
    "we heard the waves crashing",
)


@pytest.mark.parametrize(("sentence", "triplets"), JUDGED.items())
def test_opinions_of_a_sentence(english: English, sentence: str, triplets: set[tuple[str, str, int]]) -> None:
    assert found(english, sentence) == triplets


@pytest.mark.parametrize("sentence", PLAIN)
def test_a_sentence_without_opinion_gives_nothing(english: English, sentence: str) -> None:
    assert found(english, sentence) == set()


def test_sentences_do_not_touch_each_other(english: English) -> None:
    sentences = [sentence.split() for sentence in JUDGED]
    ends = np.cumsum([0] + [len(words) for words in sentences])
    tokens = english.code_tokens([word for words in sentences for word in words], ends)
    rows, _ = find_opinions(tokens.bits, tokens.sense, tokens.ends)
    alone = [len(found(english, sentence)) for sentence in JUDGED]
    assert np.bincount(rows[:, 0], minlength=len(alone)).tolist() == alone


def test_a_long_sentence_has_no_more_opinions_than_there_is_room_for(english: English) -> None:
    tokens = english.code_tokens(["great", "food", "and"] * 2000, np.array([0, 6000]))
    rows, _ = find_opinions(tokens.bits, tokens.sense, tokens.ends)
    assert 0 < len(rows) <= 256


def test_without_its_word_lists_mining_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("whyrank.mining.language.find_spec", lambda package: None)
    with pytest.raises(MissingExtra, match=r"whyrank\[mine\]"):
        penn_tags()
