"""One explain: options, ranking, evidence, sentences, recommendations, bulk files."""
