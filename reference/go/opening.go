package toyspec

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// openAttempts bounds how often a stream may be replaced between opening and locking it: that often is not an accident.
const openAttempts = 100

// opened is a stream that this process alone may write to.
type opened struct {
	file    *os.File
	path    string
	created bool
	restore func() error // moves back what was moved out of the way; nil where nothing was
}

// undo brings everything back to where it was, provided that the stream is empty. The file stays open, with its lock.
func (o opened) undo() error {
	info, err := o.file.Stat()
	if err != nil || info.Size() > 0 || !o.created || !isAt(o.path, o.file) {
		return err
	}
	if err := os.Remove(o.path); err != nil || o.restore == nil {
		return err
	}
	return o.restore()
}

// openLocked opens the stream at path, which it creates if there is none, and makes this process its only writer.
func openLocked(path string) (opened, error) {
	for range openAttempts {
		_, missing := os.Lstat(path)
		file, err := os.OpenFile(path, os.O_RDWR|os.O_APPEND|os.O_CREATE|openFlags, 0o666)
		if err != nil {
			return opened{}, err
		}
		if err := lockRegular(file); err != nil {
			file.Close()
			return opened{}, fmt.Errorf("%s: %w", path, err)
		}
		if isAt(path, file) {
			return opened{file: file, path: path, created: errors.Is(missing, fs.ErrNotExist)}, nil
		}
		file.Close()
	}
	return opened{}, fmt.Errorf("%s: %w: other writers replace it again and again", path, ErrLocked)
}

func lockRegular(file *os.File) error {
	info, err := file.Stat()
	if err != nil {
		return err
	}
	if !info.Mode().IsRegular() {
		return ErrIrregular
	}
	return system.lock(file)
}

// isAt reports whether path names an open file. An error that leaves this unknown counts as yes.
func isAt(path string, file *os.File) bool {
	named, err := os.Stat(path)
	if err != nil {
		return !errors.Is(err, fs.ErrNotExist)
	}
	opened, err := file.Stat()
	return err != nil || os.SameFile(named, opened)
}

// openReplacing opens an empty stream at path as its only writer. A stream with bytes that is there moves to <path>.prev,
// and what has that name moves on to the next free <path>.prev-N. After an error everything is where it was.
func openReplacing(path string) (opened, error) {
	var restore func() error
	for range openAttempts {
		stream, err := openLocked(path)
		if err != nil {
			return opened{}, errors.Join(err, restored(path, restore))
		}
		info, err := stream.file.Stat()
		if err == nil && info.Size() == 0 {
			stream.restore = restore
			return stream, nil
		}
		if err == nil {
			restore, err = moveToPrevious(path)
		}
		stream.file.Close()
		if err != nil {
			return opened{}, fmt.Errorf("%s: %w", path, err)
		}
	}
	return opened{}, fmt.Errorf("%s: %w: other writers replace it again and again", path, ErrLocked)
}

// moveRanks moves the streams of the other ranks of a run that was replaced, each as openReplacing does. One that a writer
// holds is of a process of the new run, which began before this one.
func moveRanks(directory string) {
	ranks, _ := Ranks(directory)
	for _, rank := range ranks {
		path := filepath.Join(directory, RankFile(rank))
		stream, err := openLocked(path)
		if err != nil {
			continue
		}
		if info, err := stream.file.Stat(); err == nil && info.Size() > 0 {
			_, _ = moveToPrevious(path)
		}
		_ = stream.undo()
		stream.file.Close()
	}
}

// restored moves back what was moved, unless another writer has begun a stream at path.
func restored(path string, restore func() error) error {
	if _, err := os.Lstat(path); restore == nil || !errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return restore()
}

// moveToPrevious moves path to <path>.prev, and returns what moves it back.
func moveToPrevious(path string) (restore func() error, err error) {
	previous := path + ".prev"
	older, err := moveToFree(previous)
	if err != nil {
		return nil, err
	}
	restoreOlder := func() error {
		if older == "" {
			return nil
		}
		return move(older, previous)
	}
	if err := move(path, previous); err != nil {
		return nil, errors.Join(err, restoreOlder())
	}
	return func() error { return errors.Join(move(previous, path), restoreOlder()) }, nil
}

// moveToFree moves path to the first free <path>-N, N from 1, and returns that name; "" when nothing is at path.
func moveToFree(path string) (string, error) {
	if _, err := os.Lstat(path); errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	for number := 1; ; number++ {
		name := fmt.Sprintf("%s-%d", path, number)
		if err := move(path, name); err == nil || !errors.Is(err, fs.ErrExist) {
			return name, err
		}
	}
}

// move renames a file; unlike os.Rename it never covers one that has the new name.
func move(from, to string) error {
	err := os.Link(from, to)
	if err == nil {
		if err = os.Remove(from); err != nil {
			return errors.Join(err, os.Remove(to))
		}
		return nil
	}
	if errors.Is(err, fs.ErrExist) || errors.Is(err, fs.ErrNotExist) {
		return err
	}
	// Not every file system has links, and no directory can be linked.
	if _, found := os.Lstat(to); !errors.Is(found, fs.ErrNotExist) {
		return &fs.PathError{Op: "move", Path: to, Err: fs.ErrExist}
	}
	return os.Rename(from, to)
}

// makeDirectories makes a directory and those above it, and returns what removes those that it has made.
func makeDirectories(path string) (remove func(), err error) {
	var made []string
	for at := filepath.Clean(path); ; at = filepath.Dir(at) {
		if _, err := os.Lstat(at); !errors.Is(err, fs.ErrNotExist) || at == filepath.Dir(at) {
			break
		}
		made = append(made, at)
	}
	remove = func() {
		for _, directory := range made {
			os.Remove(directory) // it stays when it is not empty
		}
	}
	if err := os.MkdirAll(path, 0o777); err != nil {
		remove()
		return nil, err
	}
	return remove, nil
}
