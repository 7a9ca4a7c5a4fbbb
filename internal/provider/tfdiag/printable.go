package tfdiag

import (
	"strings"
	"unicode"
)

// printable makes a text fit to be shown, whatever it quotes: what would steer a terminal becomes a space. Line breaks
// and tabs stay.
func printable(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) || r == '\n' || r == '\t' {
			return r
		}
		return ' '
	}, s)
}
