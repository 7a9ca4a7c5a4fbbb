package tfdiag

import (
	"strings"
	"unicode"
)

// printable makes a text safe to print, whatever it quotes: characters that can't be printed, and could control a
// terminal, become spaces. Line breaks and tabs stay.
func printable(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) || r == '\n' || r == '\t' {
			return r
		}
		return ' '
	}, s)
}
