"""Which jobs need no reading: their keys and fingerprints, 16 bytes each."""

from __future__ import annotations

from hashlib import blake2b

from slurmdoctor.survey.columns import stored

_BUCKETS = 4096


class Known:
    """A set of (key, fingerprint) that holds millions in little memory."""

    def __init__(self) -> None:
        self._buckets = [bytearray() for _ in range(_BUCKETS)]

    def add(self, key: str, fingerprint: str) -> bool:
        """Whether it is new."""
        digest = digest_of(f"{key}\0{fingerprint}")
        bucket = self._buckets[int.from_bytes(digest[:2], "big") % _BUCKETS]
        if digest in bucket:
            return False
        bucket += digest
        return True

    def add_read(self, key: str, state: str | None) -> None:
        """The logs of this job were read, when Slurm had it in this state."""
        self.add(key, _of(state))

    def was_read(self, key: str, state: str | None) -> bool:
        digest = digest_of(f"{key}\0{_of(state)}")
        return digest in self._buckets[int.from_bytes(digest[:2], "big") % _BUCKETS]


def _of(state: str | None) -> str:
    return f"read {state}"


def digest_of(text: str) -> bytes:
    """16 bytes that stand for a text."""
    return blake2b(stored(text).encode(), digest_size=16).digest()
