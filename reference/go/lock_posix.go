//go:build aix || solaris

package toyspec

import (
	"os"
	"syscall"
)

// lock takes a record lock: there is no flock here. It returns ErrLocked when another process has the file, and nil where
// the file system has no locks.
func lock(file *os.File) error {
	return lockBy(func() error {
		return syscall.FcntlFlock(file.Fd(), syscall.F_SETLK, &syscall.Flock_t{Type: syscall.F_WRLCK})
	})
}
