package toyspec

import (
	"os"
	"syscall"
)

// setOpenLock is F_OFD_SETLK, which package syscall does not name: a record lock that belongs to the open file, as flock
// does, and that conflicts with the record locks of writers that cannot take flock (JVM, OCaml).
const setOpenLock = 37

// lock takes both kinds of locks on the file. It returns ErrLocked when another writer has either; a kind that the file
// system does not have is left out.
func lock(file *os.File) error {
	if err := lockBy(func() error { return syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) }); err != nil {
		return err
	}
	return lockBy(func() error {
		err := syscall.FcntlFlock(file.Fd(), setOpenLock, &syscall.Flock_t{Type: syscall.F_WRLCK})
		if isOneOf(err, unavailable) { // an old kernel, or a sandbox
			err = syscall.FcntlFlock(file.Fd(), syscall.F_SETLK, &syscall.Flock_t{Type: syscall.F_WRLCK})
		}
		return err
	})
}
