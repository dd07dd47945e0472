package toyspec

import (
	"regexp"
	"strconv"
	"time"
)

var dateTimeForm = regexp.MustCompile(`^(\d{4}-\d\d-\d\dT\d\d:\d\d):(\d\d)(?:\.\d+)?(Z|[+-](\d\d):(\d\d))\z`)

// isDateTime reports whether text is a date and time of RFC 3339 that exist, with a zone.
func isDateTime(text string) bool {
	parts := dateTimeForm.FindStringSubmatch(text)
	if parts == nil {
		return false
	}
	moment, err := time.Parse("2006-01-02T15:04", parts[1])
	if err != nil || parts[4] > "23" || parts[5] > "59" || parts[2] > "60" {
		return false
	}
	if parts[2] < "60" {
		return true
	}
	// A leap second comes at the end of a day in UTC, whatever the zone shows.
	hours, _ := strconv.Atoi(parts[4])
	minutes, _ := strconv.Atoi(parts[5])
	offset := time.Duration(hours*60+minutes) * time.Minute
	if parts[3][0] == '+' {
		offset = -offset
	}
	moment = moment.Add(offset)
	return moment.Hour() == 23 && moment.Minute() == 59
}
