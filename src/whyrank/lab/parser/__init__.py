"""How the parser that mining uses was taught: silver trees, training, check.

The teacher is spaCy 3.8 with its small English model (en_core_web_sm 3.6). It sees the parts of
words with hyphens, and every sentence of ours as a document. The sentences are of reviews of
restaurants, games, rented flats, clothing, instruments, beauty products and hotels, taken in turn;
recipes and airlines are held out. `silver` writes the trees, `train` learns from them, `check`
prints how well the parser does.
"""
