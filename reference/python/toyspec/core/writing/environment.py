"""Finds out where and how a run takes place: machine, devices, process, packages, revision in git."""

from __future__ import annotations

import os
import re
import sys
from typing import Any, Final, NamedTuple

from toyspec.core.format.numbers import digits_of
from toyspec.core.format.redaction import text_without_secrets
from toyspec.core.format.scalars import attribute
from toyspec.core.generated.toy_v1 import Backend, Git, Host
from toyspec.core.programs import ask_git
from toyspec.version import __version__

_DETACHED = "(detached)"
_CREDENTIALS = re.compile(r"(?<=://)[^/\s]*@")
# Only these are asked for: a list of all that is installed says little, and takes long.
_MODULES: Final = (
    "accelerate clu datasets deepspeed flax ignite jax keras lightgbm lightning numpy optax optuna peft "
    "pytorch_lightning ray sklearn skorch stable_baselines3 tensorflow torch torch_xla torchtitan "
    "transformers trl xgboost"
)
_RENAMED: Final = {"ignite": "pytorch-ignite", "sklearn": "scikit-learn"}
"""Names that are not those of their modules."""


def this_host() -> Host:
    """Return the name, the system in lower case and the architecture of this machine."""
    if hasattr(os, "uname"):
        machine = os.uname()
        return Host(name=machine.nodename, os=machine.sysname.lower(), arch=machine.machine)
    # Slow to import, and needed on Windows only.
    import platform

    return Host(name=platform.node(), os=sys.platform, arch=platform.machine())


def git_revision(start: str = ".") -> Git | None:
    """Return the commit that is checked out in the working tree around *start*; None where there is none, or no git.

    The branch is empty on a detached head. Untracked files do not make the tree dirty. Credentials in the address of
    the repository are left out.
    """
    if _repository(start) is None:
        return None
    status = ask_git(start, "status", "--porcelain=v2", "--branch", "--untracked-files=no")
    if status is None:
        sha = ask_git(start, "rev-parse", "--verify", "--quiet", "HEAD")
        return Git(sha=sha.strip()) if sha else None
    facts = dict(line[2:].split(" ", 1) for line in status.splitlines() if line.startswith("# ") and " " in line[2:])
    sha, branch = facts.get("branch.oid", ""), facts.get("branch.head", "")
    if not sha or sha.startswith("("):
        return None
    is_dirty = any(not line.startswith("# ") for line in status.splitlines())
    found = Git(sha=sha, branch="" if branch == _DETACHED else branch, dirty=is_dirty)
    remote = ask_git(start, "config", "--get", "remote.origin.url")
    if remote:
        found.remote = text_without_secrets(_CREDENTIALS.sub("", remote.strip()))
    return found


def _repository(start: str) -> str | None:
    """Return the ``.git`` of a directory around *start*: without one, no program is started."""
    path = os.path.abspath(start)
    while not os.path.lexists(os.path.join(path, ".git")):
        parent = os.path.dirname(path)
        if parent == path:
            return None
        path = parent
    return os.path.join(path, ".git")


def package_versions() -> dict[str, str]:
    """Return the versions of Python, of toyspec, and of each known framework that this program has imported."""
    found = {"python": ".".join(map(str, sys.version_info[:3])), "toyspec": __version__}
    for module in sorted(sys.modules.keys() & _MODULES.split()):
        name = _RENAMED.get(module, module.replace("_", "-"))
        version = getattr(sys.modules[module], "__version__", None)
        if not isinstance(version, str):
            # Slow to import, and most packages say their version themselves.
            from importlib import metadata

            try:
                version = metadata.version(name)
            except metadata.PackageNotFoundError:
                continue
        found[name] = version
    return found


def this_backend() -> Backend | None:
    """Return what computes here: the device in use, else the processor; None if a GPU is there and may yet be used."""
    found = backend_in_use()
    if found is None and (jax := sys.modules.get("jax")) is not None and jax.default_backend() != "cpu":
        return _jax_backend(jax)
    return found or (None if _has_cuda() else Backend(kind="cpu"))


def backend_in_use() -> Backend | None:
    """Return the device that JAX or PyTorch uses already, None where neither has begun: asking must not begin it."""
    jax, cuda = sys.modules.get("jax"), cuda_in_use()
    has_begun = attribute(sys.modules.get("jax._src.xla_bridge"), "backends_are_initialized")
    if jax is not None and callable(has_begun) and has_begun() and jax.default_backend() != "cpu":
        return _jax_backend(jax)
    if cuda is not None:
        compute = ".".join(map(str, cuda.get_device_capability()))
        return Backend(kind="cuda", device=cuda.get_device_name(), compute=compute)
    return None


def _jax_backend(jax: Any) -> Backend:
    return Backend(kind=jax.default_backend(), device=jax.local_devices()[0].device_kind)


def cuda_in_use() -> Any:
    """Return ``torch.cuda`` once it is in use: a process that has not touched its devices must not be made to."""
    return sys.modules["torch"].cuda if _has_cuda() and sys.modules["torch"].cuda.is_initialized() else None


def _has_cuda() -> bool:
    cuda = attribute(sys.modules.get("torch"), "cuda")
    return cuda is not None and bool(cuda.is_available())


_LAUNCHERS: Final = (
    ("RANK", "WORLD_SIZE"),
    ("SLURM_PROCID", "SLURM_NTASKS"),
    ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"),
    ("PMI_RANK", "PMI_SIZE"),
)
_NO_ID: Final = "none"
"""What torchrun gives as the id of a run that was given none."""


class TrainingProcess(NamedTuple):
    """One of the processes that train together."""

    rank: int
    """Its number, from 0, which is the master."""
    size: int
    """Number of all of them."""
    source: str
    """What reports it: a library, or the variable of a launcher; empty where no message names it."""


ALONE: Final = TrainingProcess(0, 1, "")


def this_process() -> TrainingProcess:
    """Return which of the processes this is that train together.

    Asked are the libraries that are already imported, torch_xla, JAX and torch.distributed in this order, then the
    variables of one launcher: torchrun, Slurm, Open MPI, or another with PMI. None is imported for this, and a launcher
    of which only one of the two variables is set says nothing. JAX answers after ``jax.distributed.initialize()``.
    """
    runtime, jax, distributed = sys.modules.get("torch_xla.runtime"), sys.modules.get("jax"), _distributed()
    if runtime is not None:
        ordinal, ask_size = int(runtime.global_ordinal()), getattr(runtime, "world_size", None)
        return TrainingProcess(ordinal, ordinal + 1 if ask_size is None else int(ask_size()), "torch_xla")
    # JAX that runs alone may run beside another library that does not.
    if jax is not None and int(jax.process_count()) > 1:
        return TrainingProcess(int(jax.process_index()), int(jax.process_count()), "jax")
    if distributed is not None:
        return TrainingProcess(int(distributed.get_rank()), int(distributed.get_world_size()), "torch.distributed")
    for rank_name, size_name in _LAUNCHERS:
        rank, size = (digits_of(os.environ.get(name, "")) for name in (rank_name, size_name))
        if rank is not None and size is not None and rank < size:
            return TrainingProcess(rank, size, rank_name) if size > 1 else ALONE
    return ALONE


def shared_run_id() -> str | None:
    """Return an id that all processes of this training have in common; None where nothing tells one.

    The launcher tells it, else the first process of torch.distributed, which all of them must ask then.
    """
    elastic = os.environ.get("TORCHELASTIC_RUN_ID", "")
    if elastic and elastic != _NO_ID:
        return elastic
    job, step = os.environ.get("SLURM_JOB_ID", ""), os.environ.get("SLURM_STEP_ID", "")
    if job and step:
        return f"slurm-{job}-{step}"
    distributed = _distributed()
    if distributed is None:
        return None
    import time

    shared: list[Any] = [f"run-{time.strftime('%Y%m%d-%H%M%S', time.gmtime())}-{os.getpid()}"]
    distributed.broadcast_object_list(shared, src=0)
    return str(shared[0])


def _distributed() -> Any:
    distributed = sys.modules.get("torch.distributed")
    is_ready = distributed is not None and distributed.is_available() and distributed.is_initialized()
    return distributed if is_ready else None
