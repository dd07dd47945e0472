//go:build darwin || dragonfly || freebsd || netbsd || openbsd

package toyspec

import (
	"os"
	"syscall"
)

// lock takes flock, which record locks of other writers conflict with here. It returns ErrLocked when another writer has
// the file, and nil where the file system has no locks.
func lock(file *os.File) error {
	return lockBy(func() error { return syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) })
}
