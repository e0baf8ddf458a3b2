"""What is read of damaged, cut and appended files: all that can be, and a word on what cannot."""

from __future__ import annotations

import bz2
import gzip
import lzma
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from slurmdoctor.input.opening import open_sources
from slurmdoctor.model import UserError

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

COMPRESS: dict[str, Callable[[bytes], bytes]] = {
    "gz": gzip.compress,
    "xz": lzma.compress,
    "bz2": bz2.compress,
    "zst": zstd.compress,
}
TEXT = b"".join(b"%d: step %d loss 0.%d\n" % (n % 8, n, n * 7919 % 1000) for n in range(100_000))


def read(path: Path) -> bytes:
    (source,) = open_sources([str(path)]).sources
    return b"".join(block.data[: block.size] for block in source.blocks())


def test_appended_zstd_frames_are_one_log(tmp_path: Path) -> None:
    log = tmp_path / "job.log.zst"
    log.write_bytes(zstd.compress(TEXT) + zstd.compress(TEXT))
    assert read(log) == TEXT * 2


@pytest.mark.parametrize("ending", COMPRESS)
def test_of_a_cut_file_is_read_what_is_there(ending: str, tmp_path: Path) -> None:
    log = tmp_path / f"job.log.{ending}"
    packed = COMPRESS[ending](TEXT)
    log.write_bytes(packed[: len(packed) * 9 // 10])
    found = read(log)
    assert len(found) > len(TEXT) // 2
    assert TEXT.startswith(found)


def test_without_a_decoder_the_error_names_the_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    module = "compression.zstd" if sys.version_info >= (3, 14) else "backports.zstd"
    monkeypatch.setitem(sys.modules, module, None)
    log = tmp_path / "job.log.zst"
    log.write_bytes(zstd.compress(TEXT))
    with pytest.raises(UserError) as error:
        read(log)
    assert "pip install backports.zstd" in error.value.mend
