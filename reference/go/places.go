package toyspec

// NumberPlace says how the schema types a number at a place in a record.
type NumberPlace struct{ declared *field }

// NumberPlace returns the place of a member of a record.
func (p Profile) NumberPlace(record map[string]any, key string) NumberPlace {
	return NumberPlace{member(p.fieldsOf(record), key)}
}

// Inside returns the place of a member of an object at this place.
func (n NumberPlace) Inside(key string) NumberPlace {
	switch {
	case n.declared == nil:
		return n
	case n.declared.form == formObject:
		return NumberPlace{member(n.declared.fields, key)}
	case n.declared.form == formMap:
		return NumberPlace{n.declared.of}
	}
	return NumberPlace{}
}

// Item returns the place of the items of an array at this place.
func (n NumberPlace) Item() NumberPlace {
	if n.declared == nil || n.declared.form != formArray {
		return NumberPlace{}
	}
	return NumberPlace{n.declared.of}
}

// IsNumber reports whether a number here is a float, however it is written.
func (n NumberPlace) IsNumber() bool {
	return n.declared != nil && (n.declared.form == formNumber || n.IsBinary32())
}

// IsBinary32 reports whether a number here is binary32.
func (n NumberPlace) IsBinary32() bool {
	return n.declared != nil && n.declared.form == formBinary32
}

func member(fields []field, key string) *field {
	for i := range fields {
		if fields[i].name == key {
			return &fields[i]
		}
	}
	return nil
}
