package domain

import (
	"regexp"
	"strings"
)

var plainWord = regexp.MustCompile(`^[A-Za-z0-9_@%+=:,./][-A-Za-z0-9_@%+=:,./]*$`)

// ShellWord returns a name or a path as one word of a command that users are told to run: the name of a VM may have
// spaces and parentheses. What a shell leaves alone has no quotes.
func ShellWord(name string) string {
	if plainWord.MatchString(name) {
		return name
	}
	return "'" + strings.ReplaceAll(name, "'", `'\''`) + "'"
}
