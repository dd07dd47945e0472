//go:build !unix

package toyspec

import (
	"errors"
	"os"
)

const openFlags = 0

// passing lists the errors after which a later write may succeed; the standard library names none here.
var passing []error

func isOneOf(err error, list []error) bool {
	for _, item := range list {
		if errors.Is(err, item) {
			return true
		}
	}
	return false
}

// The standard library has no lock here: keep to one writer for each stream.
func lock(*os.File) error { return nil }

func syncFile(file *os.File) error { return file.Sync() }

// A directory cannot be synced here.
func syncDirectory(string) error { return nil }
