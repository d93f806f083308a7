"""Lists of English words that the rules of mining go by."""

from __future__ import annotations


def words(text: str) -> tuple[str, ...]:
    return tuple(text.split())


# EXTRA's list. A contraction (I'm, we've) counts as the word before its apostrophe.
FIRST_PERSON = words("i me my mine myself we us our ours ourselves")

# Frequent words of English that are rare in other languages.
ENGLISH = words(
    "the and of to with for it that this but were are have very not you they at from which there would on was"
)

# Cut from the front of a sentence: what ties it to the one before.
OPENERS = words(
    """and but or so also plus yet then although though however because while overall anyway besides additionally
    furthermore moreover finally lastly again such yes well otherwise therefore unfortunately fortunately luckily sadly
    with just even especially including"""
)
ARTICLES = words("a an the")

# A sentence that starts or ends with one of these is half a sentence, or one that leaves out the first person.
FRAGMENT_STARTS = words(
    """which who whose whom where when if as than that unless until of since whether to from by into for like despite
    after before during except about what how why these those he she his her another be been being is are was were have
    has had having do does did can could will would should might must get got make made making give gave took found love
    loved enjoy enjoyed liked stayed booked went thought felt came arrived paid asked told said recommend
    thanks thank"""
)
FRAGMENT_ENDS = words(
    """and but or so with of for to from in on at by than that the a an is are was were be been has had have as which
    who if very really it this these those their your its because when where"""
)

# Adjectives by grammar that describe nothing.
PALE_ADJECTIVES = words(
    """other first second third last next same few many several such own whole more most much less least only certain
    various due able sure past previous recent current main possible total entire early late later etc different
    particular similar prior following half final fellow further"""
)

# Words that turn the meaning of a sentence.
NEGATIONS = frozenset(words("no not never without nothing hardly barely lack lacked lacks lacking"))

# Names are often written with these in lower case.
LITTLE = words("a an the and of in on at to de la le du by for")
