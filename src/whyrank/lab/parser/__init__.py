"""How the parser that mining uses was taught: silver trees, training, check.

The teacher is spaCy 3.8 with its small English model (en_core_web_sm 3.6). Every sentence that
`mining/tokens.py` finds is a document for it; words with hyphens it sees in parts. The sentences
are of English reviews of restaurants, games, rented flats, clothing, instruments, beauty products
and hotels, taken in turn, each once: 420,000 of them. Recipes and airlines are held out.

    python -m whyrank.lab.parser.silver MODEL shards REVIEWS.jsonl.gz ... --limit 420000 --seed 1
    python -m whyrank.lab.parser.train shards parser.npz --steps 15400 --rate 0.003 --seed 1
    python -m whyrank.lab.parser.check --silver recipes=HELD_OUT ... --trees reviews.conllu ...

The weights in the package were trained while shards were still being written: a pass took those
that were there, first 190,000 sentences and at last all, and the rate fell with time to nothing
at the last step. Against the teacher on 5,000 sentences each (punctuation apart), and on 1,089
sentences of reviews in Universal Dependencies' English Web Treebank:

                                    recipes   airlines
    tags                               96.7       96.9
    UAS; LAS                     91.7; 89.5 89.5; 87.4
    nsubj; amod F1               95.9; 88.8 91.7; 86.6
    neg; conj F1                 97.3; 78.3 95.4; 73.8
    pairs of noun and adjective        87.6       86.8
    the same on people's trees   85.2 (the teacher 84.0)
"""
