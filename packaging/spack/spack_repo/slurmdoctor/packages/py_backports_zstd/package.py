"""backports.zstd for Spack, which does not have it."""

from spack_repo.builtin.build_systems.python import PythonPackage

from spack.package import *


class PyBackportsZstd(PythonPackage):
    """Python 3.14's module for Zstandard, for older Pythons."""

    homepage = "https://github.com/rogdham/backports.zstd"
    pypi = "backports.zstd/backports_zstd-1.8.0.tar.gz"

    license("PSF-2.0")

    version("1.8.0", sha256="9dae4f4c481716e3db473d667457b4f508ff7459c0931b567a5c9677fb3db316")

    depends_on("c", type="build")

    depends_on("python@3.10:3.13", type=("build", "link", "run"))
    depends_on("py-setuptools@80:", type="build")
