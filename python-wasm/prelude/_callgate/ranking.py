"""Which tools fit a question: BM25 over names, parameters and descriptions."""

import re
from math import log

from _callgate.signatures import properties_of

_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+|[^\W\d_a-zA-Z]+")
_WEIGHTS = {"name": 4.0, "parameter": 1.5, "text": 1.0}
_SATURATION = 1.2
_LENGTH = 0.5
_ENDINGS = ("ings", "ing", "ies", "ers", "er", "ed", "es", "s", "y", "e")


class Ranking:
    """An index of tools, made once."""

    def __init__(self, offers):
        self.size = len(offers)
        self._weights = [_words_of(offer) for offer in offers]
        self._lengths = [sum(words.values()) for words in self._weights]
        self._mean = sum(self._lengths) / max(1, len(self._lengths))
        self._postings = {}
        for number, words in enumerate(self._weights):
            for word in words:
                self._postings.setdefault(word, []).append(number)

    def search(self, text, limit):
        """The numbers of the tools that fit, best first; those as good as each other in order."""
        scores = {}
        for word in dict.fromkeys(_stems(text)):
            for number, score in self._scores(word).items():
                scores[number] = scores.get(number, 0.0) + score
        return sorted(scores, key=lambda number: (-scores[number], number))[:limit]

    def _scores(self, word):
        """The score of each tool for one word; words that only begin like it count half."""
        scores = self._score(word, 1.0)
        if len(word) >= 3:
            for other in self._postings:
                if other != word and other.startswith(word):
                    for number, score in self._score(other, 0.5).items():
                        scores[number] = max(score, scores.get(number, 0.0))
        return scores

    def _score(self, word, share):
        found = self._postings.get(word, ())
        rarity = log(1 + (len(self._weights) - len(found) + 0.5) / (len(found) + 0.5))
        scores = {}
        for number in found:
            weight = self._weights[number][word]
            length = 1 - _LENGTH + _LENGTH * self._lengths[number] / self._mean
            scores[number] = share * rarity * weight * (_SATURATION + 1) / (weight + _SATURATION * length)
        return scores


def _words_of(offer):
    words = {}
    _add(words, offer["name"], "name")
    _add(words, offer.get("serverName"), "parameter")
    _add(words, offer.get("description"), "text")
    for name, part in properties_of(offer.get("parameters")).items():
        _add(words, name, "parameter")
        if isinstance(part, dict):
            _add(words, part.get("description"), "text")
    return words


def _add(words, text, kind):
    if not isinstance(text, str):
        return
    for word in _stems(text):
        words[word] = words.get(word, 0.0) + _WEIGHTS[kind]


def _stems(text):
    """The words of a text, also those inside `camelCase` and `snake_case`, without their endings."""
    for word in _WORD.findall(text):
        word = word.lower()
        for ending in _ENDINGS:
            if len(word) - len(ending) >= 3 and word.endswith(ending):
                word = word[: -len(ending)]
                break
        yield word
