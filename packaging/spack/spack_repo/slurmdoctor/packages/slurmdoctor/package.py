"""slurmdoctor for Spack."""

from spack_repo.builtin.build_systems.python import PythonPackage

from spack.package import *


class Slurmdoctor(PythonPackage):
    """Finds the rank that broke your training job, and why, from the logs of a Slurm GPU job."""

    pypi = "slurmdoctor/slurmdoctor-0.1.0.tar.gz"

    license("Apache-2.0")

    # Before the release: `spack dev-build slurmdoctor@0.1.0` in a clone. After it, give the version the hash of what PyPI has.
    version("0.1.0")

    depends_on("c", type="build")

    depends_on("python@3.10:", type=("build", "run"))
    depends_on("py-hatchling@1.21:", type="build")
    depends_on("py-setuptools@69:", type="build")

    # these compile the rules, too
    depends_on("py-msgspec@0.19:", type=("build", "run"))
    depends_on("py-regex@2023.12.25:", type=("build", "run"))
    depends_on("py-pyyaml@6:", type=("build", "run"))

    depends_on("py-click@8.1:", type=("build", "run"))
    depends_on("py-jinja2@3.1:", type=("build", "run"))
    depends_on("py-rich@13.4:", type=("build", "run"))
    depends_on("py-tree-sitter@0.23.2:", type=("build", "run"))
    depends_on("py-tree-sitter-bash@0.23.3:", type=("build", "run"))
    depends_on("py-tomli@2:", type=("build", "run"), when="^python@:3.10")
    depends_on("py-backports-zstd@1:", type=("build", "run"), when="^python@:3.13")

    def setup_build_environment(self, env: EnvironmentModifications) -> None:
        """Without the compiled search a gigabyte takes minutes: rather no package than that one."""
        env.set("SLURMDOCTOR_COMPILE", "require")
