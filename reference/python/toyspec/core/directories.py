"""Creates, replaces, moves and deletes files beside others: the only place of the package that does so.

What is in a folder from elsewhere may be a link that leads anywhere, so that each file is changed by its name in a
directory that is held open, and by no path. ``core/writing/opening.py`` alone opens logs, which grow; it follows no
link either. A file that the user names, for example by ``-o``, is written by ``write_output``.
"""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import stat
from typing import TYPE_CHECKING, BinaryIO, Literal

from toyspec.core.files import open_file
from toyspec.core.system_calls import SYSTEM_CALLS, SystemCalls, sync_file

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from typing import Self

NO_LINK = getattr(os, "O_NOFOLLOW", 0)
"""Flag with which a file is opened for writing: a link there may lead anywhere."""
_COMMON = getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0) | NO_LINK
# Opening does not wait for the other end of a FIFO.
_EXISTING = os.O_RDWR | getattr(os, "O_NONBLOCK", 0) | _COMMON
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | _COMMON
_FOLDER = os.O_RDONLY | getattr(os, "O_DIRECTORY", 0) | getattr(os, "O_CLOEXEC", 0)
_BLOCK_BYTES = 1 << 20


class Directory:
    """A directory that is held open, and whose files are changed by their names.

    A name has one part. The directory is the one that *path* named when it was opened, links in *path* included,
    since the user named it. Below it no link is followed: one in place of a file or folder is an OSError, or is itself
    replaced, moved or deleted. Files are new, or regular ones. Each error names the whole path.

    Windows has no descriptors of directories: links are looked for before each call there, so that a process which puts
    one there meanwhile is obeyed. The same holds for a directory that the user may not list.
    """

    def __init__(
        self,
        path: str,
        *,
        missing: Literal["make", "fail"] = "fail",
        calls: SystemCalls = SYSTEM_CALLS,
        descriptor: int | None = None,
    ) -> None:
        """Open the directory *path*, or take the open one of *descriptor*; raise OSError."""
        if missing == "make":
            os.makedirs(path, exist_ok=True)
        self.path = path
        self.descriptor = descriptor
        """None on Windows, and without the right to list the directory: paths are used there."""
        self._calls = calls
        if descriptor is None and os.name != "nt":
            with contextlib.suppress(PermissionError):
                self.descriptor = calls.open(path or ".", _FOLDER, 0)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the directory."""
        descriptor, self.descriptor = self.descriptor, None
        if descriptor is not None:
            with contextlib.suppress(OSError):
                self._calls.close(descriptor)

    def sync(self) -> None:
        """Force the names in it to its device; do nothing on Windows, which needs none, or without a descriptor."""
        if self.descriptor is not None:
            sync_file(self._calls, self.descriptor)

    @contextlib.contextmanager
    def folder(self, *names: str) -> Iterator[Directory]:
        """Yield the folder that is below it by *names*, each of which is made if it is not there."""
        if not names:
            yield self
            return
        name, *below = names
        with self._reported(name):
            with contextlib.suppress(FileExistsError):
                os.mkdir(self.at(name), dir_fd=self.descriptor)
            at = self.at(name)
            opened = None if os.name == "nt" else self._calls.open(at, _FOLDER | NO_LINK, 0, dir_fd=self.descriptor)
        found = Directory(os.path.join(self.path, name), calls=self._calls, descriptor=opened)
        with found, found.folder(*below) as last:
            yield last

    def new(self, name: str) -> BinaryIO:
        """Return the new file *name*, open for writing; raise FileExistsError where there is one."""
        with self._reported(name):
            return os.fdopen(self._calls.open(self.at(name), _NEW, 0o666, dir_fd=self.descriptor), "wb")

    def existing(self, name: str, flags: int = 0) -> int:
        """Return a descriptor on the file *name*, open for reading and writing.

        *flags* are added: ``O_CREAT`` makes the file if it is not there, ``O_APPEND`` writes at its end.
        """
        with self._reported(name):
            descriptor = self._calls.open(self.at(name), _EXISTING | flags, 0o666, dir_fd=self.descriptor)
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                os.close(descriptor)
                raise OSError(errno.EINVAL, "not a regular file")
            return descriptor

    def write(self, name: str, blocks: Iterable[bytes], *, exist: Literal["overwrite", "fail"] = "overwrite") -> None:
        """Write the new file *name* from *blocks* and force it to its device; remove it when that fails.

        With *exist* ``"fail"``, raise FileExistsError where there is one.
        """
        if exist == "overwrite":
            self.delete(name)
        with self._reported(name):
            descriptor = self._calls.open(self.at(name), _NEW, 0o666, dir_fd=self.descriptor)
            try:
                self._fill(descriptor, blocks)
            except BaseException:
                with contextlib.suppress(OSError):
                    self.delete(name)
                raise

    def _fill(self, descriptor: int, blocks: Iterable[bytes]) -> None:
        try:
            for block in blocks:
                rest = memoryview(block)
                while rest:
                    written = self._calls.write(descriptor, rest)
                    if written <= 0:
                        raise OSError(errno.EIO, "the system accepted 0 bytes of a write")
                    rest = rest[written:]
            sync_file(self._calls, descriptor)
        finally:
            self._calls.close(descriptor)

    def replace(self, name: str, blocks: Iterable[bytes], *, beside: str | None = None) -> None:
        """Give the file *name* the content of *blocks*, at once: it is written as *beside*, ``<name>.new``, before."""
        with self.replaced(name, beside=beside) as path:
            self.write(os.path.basename(path), blocks)

    @contextlib.contextmanager
    def replaced(self, name: str, *, beside: str | None = None) -> Iterator[str]:
        """Give the free path *beside*, ``<name>.new``, for what writes files by paths; it then becomes *name*, at once.

        When the body fails, *name* stays as it was and what was written is removed.
        """
        new = beside or f"{name}.new"
        self.delete(new)
        try:
            yield os.path.join(self.path, new)
            self.move(new, name)
        except BaseException:
            with contextlib.suppress(OSError):
                self.delete(new)
            raise

    def move(self, name: str, new: str, *, to: Directory | None = None) -> None:
        """Give *name* the name *new*, in the directory *to* if it is given; what had that name is replaced."""
        to = to or self
        with self._reported(name):
            self._calls.replace(self.at(name), to.at(new), src_dir_fd=self.descriptor, dst_dir_fd=to.descriptor)

    def link(self, name: str, new: str) -> None:
        """Give the file *name* the name *new* too; raise FileExistsError where there is one."""
        with self._reported(new):
            os.link(self.at(name), self.at(new), src_dir_fd=self.descriptor, dst_dir_fd=self.descriptor)

    def delete(self, name: str) -> None:
        """Delete the file or link *name*; do nothing where there is none."""
        with self._reported(name), contextlib.suppress(FileNotFoundError):
            os.unlink(self.at(name, follows=False), dir_fd=self.descriptor)

    def delete_tree(self, name: str) -> None:
        """Delete the folder *name* with all that is in it, as far as that is possible, and no link or file."""
        shutil.rmtree(self.at(name, follows=False), ignore_errors=True, dir_fd=self.descriptor)

    def copy(self, source: str, name: str) -> None:
        """Write the new file *name* with what the regular file at the path *source* has."""
        with open_file(source) as file:
            self.write(name, iter(lambda: file.read(_BLOCK_BYTES), b""), exist="fail")

    def at(self, name: str, *, follows: bool = True) -> str:
        """Return what a call gets for *name*; without a descriptor, raise OSError for a link that it would follow."""
        if name in ("", ".", "..") or "/" in name or os.sep in name or "\0" in name:
            raise OSError(errno.EINVAL, "not the name of a file")
        if self.descriptor is not None:
            return name
        path = os.path.join(self.path, name)
        if follows and os.path.islink(path):
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))
        return path

    @contextlib.contextmanager
    def _reported(self, name: str) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            if error.filename in (None, name):
                error.filename, error.filename2 = os.path.join(self.path, name), None
            raise


@contextlib.contextmanager
def directory_of(path: str) -> Iterator[tuple[Directory, str]]:
    """Yield the directory of *path*, which is held open, and the name of *path* in it."""
    place, name = os.path.split(path)
    with Directory(place) as directory:
        yield directory, name


def sync_directory(calls: SystemCalls, path: str) -> None:
    """Force the names in the directory *path* to its device."""
    with Directory(path, calls=calls) as directory:
        directory.sync()


def new_file(path: str) -> BinaryIO:
    """Return the new file at *path*, in a directory of this process, open for writing."""
    with directory_of(path) as (directory, name):
        return directory.new(name)


def delete_tree(path: str) -> None:
    """Delete the folder at *path* with all that is in it, as far as that is possible; follow no link."""
    with contextlib.suppress(OSError), directory_of(path) as (directory, name):
        directory.delete_tree(name)


def write_output(path: str, data: bytes) -> None:
    """Write *data* into the file that the user named for output: what the name leads to, such as a pipe, is meant."""
    with open(path, "wb") as file:
        file.write(data)
