package toyspec

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/big"
	"slices"
	"sort"
	"strconv"
	"strings"
	"unicode/utf8"
)

// ErrRefused is what encoding a record returns that no reader would accept.
var ErrRefused = errors.New("record refused")

// Encode returns the canonical line of a record, LF included. Values are those of encoding/json, and any Go integer,
// *big.Int, float32 and float64; NaN and infinities become null. Strings and keys must be UTF-8, numbers that are given as
// text must be those of JSON, and integers must lie within binary64. An error wraps ErrRefused.
func Encode(profile Profile, record map[string]any) ([]byte, error) {
	e := encoder{}
	declared := profile.fieldsOf(record)
	if declared == nil {
		declared = []field{}
		if tag := profileTables[profile].tag; tag != "" {
			declared = append(declared, field{name: tag, form: formString, required: true})
		}
	}
	for _, item := range declared {
		if _, ok := record[item.name]; item.required && !ok {
			return nil, fmt.Errorf("%w: %s is missing", ErrRefused, item.name)
		}
	}
	e.object(record, declared, 1)
	if e.err != nil {
		return nil, e.err
	}
	if len(e.out) > MaxLineBytes {
		return nil, fmt.Errorf("%w: %d bytes in one line", ErrRefused, len(e.out))
	}
	return append(e.out, '\n'), nil
}

type encoder struct {
	out []byte
	key string // of the member that is being written
	err error
}

// name returns what a message calls a place: its field, and where the schema names none, the last key.
func (e *encoder) name(declared *field) string {
	if declared.name != "" {
		return declared.name
	}
	return e.key
}

func (e *encoder) fail(format string, arguments ...any) {
	if e.err == nil {
		e.err = fmt.Errorf("%w: %s", ErrRefused, fmt.Sprintf(format, arguments...))
	}
}

var anything = &field{form: formOpen, nullable: true}

func (e *encoder) object(value map[string]any, declared []field, depth int) {
	if depth > MaxDepth {
		e.fail("nested deeper than %d", MaxDepth)
		return
	}
	known := make(map[string]bool, len(declared))
	comma := byte('{')
	for i := range declared {
		known[declared[i].name] = true
		if item, ok := value[declared[i].name]; ok {
			e.member(&comma, declared[i].name, item, &declared[i], depth)
		} else if declared[i].always {
			e.member(&comma, declared[i].name, map[string]any{}, &declared[i], depth)
		}
	}
	others := make([]string, 0)
	for key := range value {
		if !known[key] {
			others = append(others, key)
		}
	}
	sort.Strings(others)
	for _, key := range others {
		e.member(&comma, key, value[key], anything, depth)
	}
	if comma == '{' {
		e.out = append(e.out, '{')
	}
	e.out = append(e.out, '}')
}

func (e *encoder) member(comma *byte, key string, value any, declared *field, depth int) {
	e.out = append(e.out, *comma)
	*comma, e.key = ',', key
	e.text(key)
	e.out = append(e.out, ':')
	e.value(value, declared, depth)
}

func (e *encoder) value(value any, declared *field, depth int) {
	switch v := value.(type) {
	case nil:
		e.null(declared)
	case bool:
		e.expect(declared, formBoolean)
		e.out = strconv.AppendBool(e.out, v)
	case string:
		e.expect(declared, formString)
		e.checkText(v, declared)
		e.text(v)
	case map[string]any:
		e.mapping(v, declared, depth+1)
	case []any:
		e.array(v, declared, depth+1)
	default:
		e.number(value, declared)
	}
}

func (e *encoder) null(declared *field) {
	if !declared.nullable {
		e.fail("null for %s", e.name(declared))
	}
	e.out = append(e.out, "null"...)
}

func (e *encoder) expect(declared *field, form form) {
	if declared.form != form && (declared.form != formOpen || declared.isMap) {
		e.fail("%s has another type", e.name(declared))
	}
}

func (e *encoder) mapping(value map[string]any, declared *field, depth int) {
	switch declared.form {
	case formObject:
		for _, item := range declared.fields {
			if _, ok := value[item.name]; item.required && !ok {
				e.fail("%s.%s is missing", e.name(declared), item.name)
			}
		}
		e.object(value, declared.fields, depth)
	case formMap, formOpen:
		of := declared.of
		if of == nil {
			of = anything
		}
		if depth > MaxDepth {
			e.fail("nested deeper than %d", MaxDepth)
			return
		}
		keys := make([]string, 0, len(value))
		for key := range value {
			keys = append(keys, key)
		}
		sort.Strings(keys)
		comma := byte('{')
		for _, key := range keys {
			e.member(&comma, key, value[key], of, depth)
		}
		if comma == '{' {
			e.out = append(e.out, '{')
		}
		e.out = append(e.out, '}')
	default:
		e.fail("%s has another type", e.name(declared))
	}
}

func (e *encoder) array(value []any, declared *field, depth int) {
	of := anything
	if declared.form == formArray {
		of = declared.of
	} else if declared.form != formOpen || declared.isMap {
		e.fail("%s has another type", e.name(declared))
	}
	if declared.items > 0 && len(value) != declared.items {
		e.fail("%s has %d items, not %d", e.name(declared), len(value), declared.items)
	}
	if depth > MaxDepth {
		e.fail("nested deeper than %d", MaxDepth)
		return
	}
	e.out = append(e.out, '[')
	for i, item := range value {
		if i > 0 {
			e.out = append(e.out, ',')
		}
		e.value(item, of, depth)
	}
	e.out = append(e.out, ']')
}

func (e *encoder) number(value any, declared *field) {
	open := declared.form == formOpen && !declared.isMap
	if number, ok := floatValue(value); ok && math.IsInf(number, 0) && !isFloat(value) {
		e.fail("%s is a number that overflows binary64", e.name(declared))
		return
	}
	if integer, ok := integerText(value); ok && (declared.form == formInteger || open) {
		e.checkNumber(integer, declared)
		e.out = append(e.out, integer...)
		return
	}
	if declared.form != formNumber && declared.form != formBinary32 && !open {
		e.fail("%s is %v, which has another type", e.name(declared), value)
		return
	}
	number, ok := floatValue(value)
	if !ok {
		e.fail("%s holds %.40q, a %T that is not a number of JSON", e.name(declared), fmt.Sprint(value), value)
		return
	}
	if declared.form == formBinary32 {
		number = float64(float32(number))
	}
	if math.IsNaN(number) || math.IsInf(number, 0) {
		e.null(declared)
		return
	}
	text := Binary64Text(number)
	if declared.form == formBinary32 {
		text = Binary32Text(float32(number))
	}
	e.checkNumber(text, declared)
	e.out = append(e.out, text...)
}

// checkNumber refuses a number outside the limits of its field.
func (e *encoder) checkNumber(text string, declared *field) {
	if declared.limits == nil {
		return
	}
	number, err := strconv.ParseFloat(text, 64)
	if err != nil || number < declared.limits.least || number > declared.limits.greatest {
		e.fail("%s is %s, outside its range", e.name(declared), text)
	}
}

// checkText refuses a string that its field does not allow.
func (e *encoder) checkText(text string, declared *field) {
	if declared.values != nil && !slices.Contains(declared.values, text) {
		e.fail("%s is %q, which it may not be", e.name(declared), text)
	}
	if declared.characters != nil && !declared.characters.allow(text) {
		e.fail("%s is %q, which does not have the required form", e.name(declared), text)
	}
	if declared.dateTime && !isDateTime(text) {
		e.fail("%s is %q, not a date-time with a zone that exists", e.name(declared), text)
	}
}

// integerText returns the digits of an integer value; false for every other value.
func integerText(value any) (string, bool) {
	switch v := value.(type) {
	case int, int8, int16, int32, int64, uint, uint8, uint16, uint32, uint64:
		return fmt.Sprint(v), true
	case *big.Int:
		if v == nil {
			return "", false
		}
		return v.String(), true
	case json.Number:
		if strings.ContainsAny(string(v), ".eE") || !isNumber(string(v)) {
			return "", false
		}
		if v == "-0" {
			return "0", true
		}
		return string(v), true
	}
	return "", false
}

// isNumber reports whether text is a number by the grammar of JSON.
func isNumber(text string) bool {
	s := scanner{data: []byte(text)}
	s.number()
	return s.stop == "" && s.at == len(text)
}

// floatValue returns a number as binary64; false for what is not a number. An overflow gives an infinity.
func floatValue(value any) (float64, bool) {
	switch v := value.(type) {
	case float64:
		return v, true
	case float32:
		return float64(v), true
	}
	text, ok := integerText(value)
	if number, isText := value.(json.Number); isText && isNumber(string(number)) {
		text, ok = string(number), true
	}
	if !ok {
		return 0, false
	}
	number, err := strconv.ParseFloat(text, 64)
	return number, err == nil || errors.Is(err, strconv.ErrRange)
}

// isFloat reports whether a value is of a type that has NaN and infinities.
func isFloat(value any) bool {
	switch value.(type) {
	case float32, float64:
		return true
	}
	return false
}

// text writes a string. One that is not UTF-8 is refused: replaced, two keys could become one.
func (e *encoder) text(value string) {
	const hex = "0123456789abcdef"
	if !utf8.ValidString(value) {
		e.fail("%.40q is not UTF-8", value)
	}
	e.out = append(e.out, '"')
	for _, r := range value {
		switch {
		case r == '"' || r == '\\':
			e.out = append(e.out, '\\', byte(r))
		case r >= 0x20:
			e.out = utf8.AppendRune(e.out, r)
		default:
			if i := strings.IndexByte("\b\t\n\f\r", byte(r)); i >= 0 {
				e.out = append(e.out, '\\', "btnfr"[i])
			} else {
				e.out = append(e.out, '\\', 'u', '0', '0', hex[r>>4], hex[r&15])
			}
		}
	}
	e.out = append(e.out, '"')
}
