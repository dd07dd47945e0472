package toyspec

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
)

// Profile names the format of a stream.
type Profile string

// The profiles that this package knows.
const (
	Toy     Profile = "toy/v1"
	Metrics Profile = "metrics/v1"
	Kaun    Profile = "kaun/v1"
	None    Profile = "" // of a stream in a format that this package does not know
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
	name       string
	form       form
	fields     []field
	of         *field
	required   bool
	always     bool // an empty map is written where there is none
	nullable   bool
	isMap      bool // an open map: an object, of any values
	limits     *limits
	items      int // number of items that an array has; 0 for any
	values     []string
	characters *characters
	dateTime   bool
}

type limits struct{ least, greatest float64 }

// characters is a form of strings: how many characters, and which ranges they are outside of.
type characters struct {
	least, most int
	excluded    [][2]rune
}

func (c *characters) allow(text string) bool {
	count := 0
	for _, letter := range text {
		count++
		for _, bounds := range c.excluded {
			if bounds[0] <= letter && letter <= bounds[1] {
				return false
			}
		}
	}
	return c.least <= count && count <= c.most
}

type profileTable struct {
	tag   string // key that names the kind; empty where all records are of one kind
	file  string
	last  string // kind that ends a complete stream; empty where any record may
	kinds map[string][]field
	// wholeNumbers says that 1.0 and 1e3 are integers where the schema asks for one.
	wholeNumbers bool
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

// environment is what determines the profile of a stream where its records do not.
type environment struct {
	name   string // name of the file, "" where it was not given
	beside string // directory of the file, "" for a stream without one
}

// profileOf determines the profile by the first readable record, then by the manifest; None where neither does.
func (s environment) profileOf(first map[string]any) Profile {
	kind, isText := first["kind"].(string)
	_, timed := first["t"].(json.Number)
	_, hasStep := first["step"]
	_, hasTime := first["wall_time_ms"]
	switch {
	case kind == "run_start" || isText && timed:
		return Toy
	case first["type"] == "scalar":
		return Kaun
	case hasStep && hasTime:
		return Metrics
	case s.hasManifest():
		return Kaun
	}
	return None
}

// profileWithoutRecord determines the profile of a stream in which no readable record was found.
func (s environment) profileWithoutRecord(hasGap bool) Profile {
	name := strings.TrimSuffix(filepath.Base(s.name), ".gz")
	switch {
	case name == profileTables[Metrics].file:
		return Metrics
	case s.hasManifest():
		return Kaun
	case hasGap && s.name != "" && name != profileTables[Toy].file:
		return None
	}
	return Toy
}

func (s environment) hasManifest() bool {
	manifest := readManifest(s.beside)
	_, hasID := manifest["run_id"]
	_, hasKind := manifest["kind"]
	return hasID && !hasKind
}

// readManifest returns the object in run.json of a directory, nil where there is none that can be read.
func readManifest(directory string) map[string]any {
	if directory == "" {
		return nil
	}
	path := filepath.Join(directory, "run.json")
	info, err := os.Stat(path)
	if err != nil || !info.Mode().IsRegular() || info.Size() > MaxLineBytes {
		return nil
	}
	data, err := os.ReadFile(path)
	if err != nil || len(data) > MaxLineBytes || validateLine(data, true) != "" {
		return nil
	}
	return decodeObject(data)
}
