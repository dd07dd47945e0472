//go:build unix

package toyspec

import (
	"errors"
	"io/fs"
	"os"
	"syscall"
)

// openFlags keep a FIFO without a reader from blocking the program; a regular file does not feel them.
const openFlags = syscall.O_NONBLOCK

// unavailable lists what a file system answers that cannot do this at all, as opposed to failing at it.
var unavailable = []error{syscall.EINVAL, syscall.ENOSYS, syscall.EOPNOTSUPP, syscall.ENOTSUP}

// passing lists the errors after which a later write may succeed.
var passing = []error{syscall.ENOSPC, syscall.EDQUOT, syscall.EFBIG, syscall.EINTR, syscall.EAGAIN}

func isOneOf(err error, list []error) bool {
	for _, item := range list {
		if errors.Is(err, item) {
			return true
		}
	}
	return false
}

// lockBy takes one kind of lock: ErrLocked when another writer has it, nil where there is no lock of this kind.
func lockBy(take func() error) error {
	err := take()
	switch {
	case isOneOf(err, []error{syscall.EWOULDBLOCK, syscall.EAGAIN, syscall.EACCES}):
		return ErrLocked
	case isOneOf(err, append(unavailable, syscall.ENOLCK)):
		return nil
	}
	return err
}

// syncFile forces a file to its device; nil where its file system cannot.
func syncFile(file *os.File) error {
	if err := file.Sync(); !isOneOf(err, append(unavailable, syscall.EROFS)) {
		return err
	}
	return nil
}

// syncDirectory forces the names in a directory to its device; nil where that cannot be asked for.
func syncDirectory(path string) error {
	directory, err := os.Open(path)
	if errors.Is(err, fs.ErrPermission) {
		return nil // it may be searched, but not read
	}
	if err != nil {
		return err
	}
	defer directory.Close()
	return syncFile(directory)
}
