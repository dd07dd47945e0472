//go:build !unix

package toyspec

import "os"

// The standard library has no lock here: keep to one writer for each stream.
func lock(*os.File) error { return nil }

// A directory cannot be synced here.
func syncDirectory(string) error { return nil }
