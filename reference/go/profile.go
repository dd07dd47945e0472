package toyspec

import (
	"os"
	"path/filepath"
	"regexp"
)

// Profile names the format of a stream.
type Profile string

// The profiles that this package knows.
const (
	Toy     Profile = "toy/v1"
	Metrics Profile = "metrics/v1"
	Kaun    Profile = "kaun/v1"
)

type form int

const (
	formInteger form = iota
	formNumber
	formBinary32
	formString
	formBoolean
	formOpen   // any JSON value; as a member, an open map
	formObject // declared members
	formArray
	formMap // any keys, values of one type
)

type field struct {
	name     string
	form     form
	fields   []field
	of       *field
	required bool
	always   bool // an empty map is written where there is none
	nullable bool
	isMap    bool // an open map: an object, of any values
	limits   *limits
	items    int // number of items that an array has; 0 for any
	values   []string
	pattern  *regexp.Regexp
	dateTime bool
}

type limits struct{ least, greatest float64 }

type profileTable struct {
	tag   string // key that names the kind; empty where all records are of one kind
	file  string
	last  string // kind that ends a complete stream; empty where any record may
	kinds map[string][]field
}

// fieldsOf returns the declared members of a record, nil for an unknown kind.
func (p Profile) fieldsOf(value map[string]any) []field {
	table := profileTables[p]
	if table.tag == "" {
		return table.kinds["entry"]
	}
	kind, _ := value[table.tag].(string)
	for _, declared := range table.kinds[kind] {
		if declared.name == table.tag {
			return table.kinds[kind]
		}
	}
	return nil
}

// detectProfile tells the profile by the first readable record, then by fallback.
func detectProfile(first map[string]any, fallback Profile) Profile {
	has := func(key string) bool { _, ok := first[key]; return ok }
	switch {
	case has("kind"):
		return Toy
	case has("type"):
		return Kaun
	case has("step") && has("wall_time_ms"):
		return Metrics
	}
	return fallback
}

// profileAt tells the profile of the stream at path where its records do not: by its name, then by the manifest beside it.
func profileAt(path string) Profile {
	if filepath.Base(path) == profileTables[Metrics].file {
		return Metrics
	}
	manifest := filepath.Join(filepath.Dir(path), "run.json")
	info, err := os.Stat(manifest)
	if err != nil || !info.Mode().IsRegular() || info.Size() > MaxLineBytes {
		return Toy
	}
	data, err := os.ReadFile(manifest)
	if err != nil || vetLine(data, true) != "" {
		return Toy
	}
	if _, ok := decodeObject(data)["schema_version"]; ok {
		return Kaun
	}
	return Toy
}
