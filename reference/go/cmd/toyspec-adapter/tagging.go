package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/big"
	"strconv"
	"strings"

	toyspec "git.example.org/toyspec/toyspec/reference/go"
)

// tagRecord returns a record in the tagged form of the protocol.
func tagRecord(profile toyspec.Profile, value map[string]any) any {
	return tagMembers(value, func(key string) toyspec.NumberPlace { return profile.NumberPlace(value, key) })
}

func tagMembers(value map[string]any, place func(string) toyspec.NumberPlace) any {
	members := make(map[string]any, len(value))
	for key, item := range value {
		members[key] = tagValue(item, place(key))
	}
	return wrapped(members)
}

// wrapped returns an object so that none is taken for a tagged number.
func wrapped(members map[string]any) any {
	if len(members) == 1 {
		for key := range members {
			if key == "int" || key == "float" || key == "f32" || key == "object" {
				return map[string]any{"object": members}
			}
		}
	}
	return members
}

func tagValue(value any, place toyspec.NumberPlace) any {
	switch v := value.(type) {
	case json.Number:
		return tagNumber(string(v), place)
	case []any:
		items := make([]any, len(v))
		for i, item := range v {
			items[i] = tagValue(item, place.Item())
		}
		return items
	case map[string]any:
		return tagMembers(v, place.Inside)
	}
	return value
}

func tagNumber(text string, place toyspec.NumberPlace) any {
	isInteger := !strings.ContainsAny(text, ".eE")
	if isInteger && !place.IsNumber() {
		integer, _ := new(big.Int).SetString(text, 10)
		return map[string]string{"int": integer.String()}
	}
	number, err := strconv.ParseFloat(text, 64)
	if err != nil {
		panic(err)
	}
	if place.IsBinary32() && math.Abs(number) < toyspec.Binary32Limit {
		return map[string]string{"f32": toyspec.Binary32Text(float32(number))}
	}
	return map[string]string{"float": toyspec.Binary64Text(number)}
}

// untagRecord returns the record that a tagged value stands for. A string that is not text is refused: package json would
// replace what is wrong in it.
func untagRecord(raw []byte) (map[string]any, error) {
	line := append(bytes.Clone(raw), '\n')
	report, err := toyspec.Read(bytes.NewReader(line), toyspec.Options{Mode: toyspec.Salvage}, func(toyspec.Record) error { return nil })
	if err != nil {
		return nil, err
	}
	if len(report.Gaps) > 0 && report.Gaps[0].Reason == "lone-surrogate" {
		return nil, errors.New("a string has half a surrogate pair")
	}
	decoder := json.NewDecoder(bytes.NewReader(raw))
	decoder.UseNumber()
	var tagged any
	if err := decoder.Decode(&tagged); err != nil {
		return nil, err
	}
	value, err := untag(tagged)
	if err != nil {
		return nil, err
	}
	record, ok := value.(map[string]any)
	if !ok {
		return nil, fmt.Errorf("a record must be an object, not: %s", raw)
	}
	return record, nil
}

func untag(tagged any) (any, error) {
	switch v := tagged.(type) {
	case []any:
		for i, item := range v {
			value, err := untag(item)
			if err != nil {
				return nil, err
			}
			v[i] = value
		}
		return v, nil
	case map[string]any:
		if len(v) == 1 {
			for tag, inner := range v {
				if text, ok := inner.(string); ok && (tag == "int" || tag == "float" || tag == "f32") {
					return untagNumber(tag, text)
				}
				if object, ok := inner.(map[string]any); ok && tag == "object" {
					return untagMembers(object)
				}
			}
		}
		return untagMembers(v)
	case json.Number:
		return nil, fmt.Errorf("the bare number %s has no tag", v)
	}
	return tagged, nil
}

func untagMembers(object map[string]any) (any, error) {
	for key, item := range object {
		value, err := untag(item)
		if err != nil {
			return nil, err
		}
		object[key] = value
	}
	return object, nil
}

func untagNumber(tag, text string) (any, error) {
	if tag == "int" {
		if strings.ContainsAny(text, ".eE") {
			return nil, fmt.Errorf("%q is not an integer", text)
		}
		return json.Number(text), nil
	}
	number, err := strconv.ParseFloat(text, 64)
	if err != nil && !math.IsInf(number, 0) {
		return nil, err
	}
	if tag == "f32" {
		return float32(number), nil
	}
	return number, nil
}
