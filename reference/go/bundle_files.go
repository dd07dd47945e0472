package toyspec

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

const mediaFolder = "media"

var (
	otherRank = regexp.MustCompile(`^events\.rank-([1-9][0-9]{0,8})\.jsonl\z`)
	// outside is a path that leaves the bundle, on any system.
	outside = regexp.MustCompile(`^[/\\]|^[A-Za-z]:|(?:^|[/\\])\.\.(?:[/\\]|\z)`)
)

// RankFile returns the name of the stream of a rank in the directory of a run.
func RankFile(rank int) string {
	if rank == 0 {
		return profileTables[Toy].file
	}
	return fmt.Sprintf("events.rank-%d.jsonl", rank)
}

// Ranks returns the ranks from 1 on that have a stream in a bundle's directory, in order. ReadFile and SummarizeFile read
// one of them at filepath.Join(directory, RankFile(rank)), with the profile Toy.
func Ranks(directory string) ([]int, error) {
	entries, err := os.ReadDir(directory)
	ranks := []int{}
	for _, entry := range entries {
		found := otherRank.FindStringSubmatch(entry.Name())
		if found == nil {
			continue
		}
		if info, err := os.Stat(filepath.Join(directory, entry.Name())); err == nil && info.Mode().IsRegular() {
			rank, _ := strconv.Atoi(found[1])
			ranks = append(ranks, rank)
		}
	}
	slices.Sort(ranks)
	return ranks, err
}

// WriteMedia writes a picture, a sound, a table or another file into the folder media of the bundle, and then the media
// record that names it. The record has name and media_type; its sha256 follows from the content, and is refused if it is
// another one. After an error that wraps ErrRefused neither is written.
func (w *Writer) WriteMedia(record map[string]any, content []byte) error {
	sum := sha256.Sum256(content)
	digest := hex.EncodeToString(sum[:])
	if given, has := record["sha256"]; has && given != digest {
		return fmt.Errorf("%s: %w: sha256 is %v, but the content has %s", w.stream.path, ErrRefused, given, digest)
	}
	named := map[string]any{}
	for key, value := range record {
		named[key] = value
	}
	named["kind"], named["sha256"] = "media", digest
	if err := w.storeMedia(named, content); err != nil {
		return err
	}
	return w.Write(named)
}

// storeMedia writes the file of a record that can be written.
func (w *Writer) storeMedia(record map[string]any, content []byte) error {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	if w.stream.file == nil || w.sequence.ended {
		return w.stream.closedError()
	}
	if w.profile != Toy {
		return fmt.Errorf("%s: %w: only toy/v1 has media", w.stream.path, ErrRefused)
	}
	if _, _, err := w.lineOf(record); err != nil {
		return fmt.Errorf("%s: %w", w.stream.path, err)
	}
	folder := filepath.Join(filepath.Dir(w.stream.path), mediaFolder)
	if info, err := os.Lstat(folder); err == nil && !info.IsDir() {
		return fmt.Errorf("%s: %w: it must be a folder of the bundle, not a link or a file", folder, ErrRefused)
	}
	name := fmt.Sprintf("%s.%s", record["sha256"], extensionOf(record["media_type"].(string)))
	return storeOnce(folder, name, content)
}

func extensionOf(mediaType string) string {
	name, _, _ := strings.Cut(mediaType, ";")
	if found, known := mediaExtensions[strings.ToLower(strings.Trim(name, " \t"))]; known {
		return found
	}
	return otherExtension
}

// storeOnce writes a file that is named after its content. It is whole under its name, or not there.
func storeOnce(folder, name string, content []byte) error {
	path := filepath.Join(folder, name)
	if info, err := os.Lstat(path); err == nil && info.Mode().IsRegular() && info.Size() == int64(len(content)) {
		return nil
	}
	if err := os.Mkdir(folder, 0o777); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	file, err := os.CreateTemp(folder, ".*.tmp")
	if err != nil {
		return err
	}
	_, err = file.Write(content)
	err = errors.Join(err, file.Chmod(0o644), system.syncFile(file), file.Close())
	if err == nil {
		err = os.Rename(file.Name(), path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(file.Name()))
	}
	return nil
}

// refuseOutside returns an error if a record names an artifact that is not in the bundle.
func refuseOutside(record map[string]any) error {
	if path, isText := record["path"].(string); isText && record["kind"] == "artifact" && outside.MatchString(path) {
		return fmt.Errorf("%w: the path %q of the artifact leaves the bundle: copy the file into it, or write a reference", ErrRefused, path)
	}
	return nil
}
