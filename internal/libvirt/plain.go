package libvirt

import (
	"reflect"
	"strings"
	"unicode"
)

// printable makes a text of a guest, QEMU or another host's daemon safe to print: it replaces characters that control a
// terminal with spaces. Line breaks stay.
func printable(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) || r == '\n' {
			return r
		}
		return ' '
	}, strings.ToValidUTF8(s, "?"))
}

// plainLine makes a value of one line, such as a name, safe to print.
func plainLine(s string) string { return strings.ReplaceAll(printable(s), "\n", " ") }

// plainLines applies plainLine to every text within a value, which a pointer refers to.
func plainLines(v reflect.Value) {
	switch v.Kind() { //nolint:exhaustive // The others hold no text.
	case reflect.Pointer:
		if !v.IsNil() {
			plainLines(v.Elem())
		}
	case reflect.Struct:
		for i := range v.NumField() {
			plainLines(v.Field(i))
		}
	case reflect.Slice:
		for i := range v.Len() {
			plainLines(v.Index(i))
		}
	case reflect.String:
		v.SetString(plainLine(v.String()))
	}
}
