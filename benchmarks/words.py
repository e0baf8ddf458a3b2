"""Makes up words, sentences, names, paths, addresses and ids: different ones all along a log, as in real ones.

Words are put together from syllables, and come as often as words come in real text: few often, most hardly ever.
"""

from __future__ import annotations

from functools import cache
from itertools import accumulate
from random import Random

_STARTS, _VOWELS, _ENDS, _USUAL, _DREADED = (
    line.split()
    for line in (
        "b br c ch cl d dr f fl g gr h j k l m n p pl pr qu r s sc sh sp st str t th tr v w",
        "a e i o u ai ea ee ie oo ou",
        "ck d ft ll m n nd ng nt p r rd rm s sh st t th x",
        "the of and to in a is that for it as was with be by on not he this are or his from at which but have an had "
        "they you were their one all we can her has there been if more when will would who so no said what up its about "
        "into than them only other new some could time these two may then do first any my now such like our over me even",
        "error failed failure timeout killed exception memory lost abort invalid missing warning refused",
    )
)
"""Of a made word: how a syllable begins, how it goes on, how the word ends; the usual words; those of failures, said of other things, too."""
_DIFFERENT = 9_000
_SPOKEN = 250_000


@cache
def _words() -> list[str]:
    random = Random("words")
    made = dict.fromkeys(_USUAL)
    while len(made) < _DIFFERENT:
        syllables = random.choices((1, 2, 3, 4), (3, 5, 3, 1))[0]
        made[
            "".join(random.choice(_STARTS) + random.choice(_VOWELS) for _ in range(syllables)) + random.choice(_ENDS)
        ] = None
    words = list(made)
    for number, word in enumerate(_DREADED):
        words.insert(300 + 90 * number, word)
    return words


@cache
def _speech() -> list[str]:
    """Words in a row, as often as each comes; a text is cut out of it at two places."""
    words = _words()
    often = list(accumulate(1 / (rank + 3) for rank in range(len(words))))
    return Random("speech").choices(words, cum_weights=often, k=_SPOKEN)


class Words:
    """What this generator of random numbers says."""

    def __init__(self, random: Random) -> None:
        self._random = random.random
        self._bits = random.getrandbits
        self._speech = _speech()
        self._names = _words()[len(_USUAL) :]

    def below(self, end: int) -> int:
        return int(self._random() * end)

    def word(self) -> str:
        """A word as rare as the next one."""
        return self._names[int(self._random() * len(self._names))]

    def text(self, count: int) -> str:
        """So many words."""
        one, other = self.below(_SPOKEN - count), self.below(_SPOKEN - count)
        half = 1 + self.below(count)
        return " ".join(self._speech[one : one + half] + self._speech[other : other + count - half])

    def sentence(self) -> str:
        return self.text(5 + self.below(14)).capitalize() + "."

    def type_name(self) -> str:
        return self.word().capitalize() + self.word().capitalize()

    def hexadecimal(self, digits: int) -> str:
        return f"{self._bits(4 * digits):0{digits}x}"

    def uuid(self) -> str:
        digits = self.hexadecimal(32)
        return f"{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}"

    def address(self) -> str:
        return f"10.{self.below(16)}.{self.below(256)}.{1 + self.below(254)}"

    def path(self, ending: str = "") -> str:
        return (
            f"/scratch/demo/{self.word()}/{self.word()}-{self.below(1000)}/{self.word()}_{self.hexadecimal(6)}{ending}"
        )

    def url(self) -> str:
        return f"https://{self.word()}.example.org/{self.word()}/{self.word()}?{self.word()}={self.hexadecimal(10)}"
