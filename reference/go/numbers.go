package toyspec

import (
	"math"
	"strconv"
	"strings"
)

// Binary64Text returns the canonical text of a finite number: the shortest digits that read back to it.
func Binary64Text(number float64) string {
	return layout(strconv.FormatFloat(number, 'e', -1, 64), number)
}

// Binary32Text returns the canonical text of a finite binary32 number: the shortest digits that read back to it by way
// of binary64.
func Binary32Text(number float32) string {
	// The binary64 value nearest to 7.038531e-26 is the middle between these two, and reads back as the even one.
	switch math.Float32bits(number) &^ (1 << 31) {
	case 0x15ae43fd:
		return layout(strconv.FormatFloat(math.Copysign(7.0385307e-26, float64(number)), 'e', -1, 64), float64(number))
	case 0x15ae43fe:
		return layout(strconv.FormatFloat(math.Copysign(7.038531e-26, float64(number)), 'e', -1, 64), float64(number))
	}
	return layout(strconv.FormatFloat(float64(number), 'e', -1, 32), float64(number))
}

// layout turns d.ddde±xx into the layout of the specification: plain where the point falls within or near the digits.
func layout(text string, number float64) string {
	if number == 0 {
		if math.Signbit(number) {
			return "-0.0"
		}
		return "0.0"
	}
	sign := ""
	if text[0] == '-' {
		sign, text = "-", text[1:]
	}
	mantissa, exponentText, _ := strings.Cut(text, "e")
	digits := strings.Replace(mantissa, ".", "", 1)
	exponent, err := strconv.Atoi(exponentText)
	if err != nil {
		panic("toyspec: strconv gave the exponent " + exponentText)
	}
	point := exponent + 1 // digits before the point
	switch {
	case point > 16 || point <= -5:
		if len(digits) > 1 {
			digits = digits[:1] + "." + digits[1:]
		}
		return sign + digits + "e" + strconv.Itoa(exponent)
	case point <= 0:
		return sign + "0." + strings.Repeat("0", -point) + digits
	case point >= len(digits):
		return sign + digits + strings.Repeat("0", point-len(digits)) + ".0"
	}
	return sign + digits[:point] + "." + digits[point:]
}
