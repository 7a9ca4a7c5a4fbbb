package terminal

import (
	"fmt"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

const (
	// TimeFormat is RFC 3339 with milliseconds.
	TimeFormat = "2006-01-02T15:04:05.000Z07:00"
	// ClockFormat is for users who watch the output.
	ClockFormat = "15:04:05.000"
	// None is shown in a column that has no value.
	None = "-"
	// widestName is the largest width to which the column of names grows.
	widestName = 32
)

// Plain makes text from other sources safe for one line of a terminal: it replaces control characters, which would
// start another line or control the terminal, with spaces.
func Plain(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return ' '
	}, s)
}

// Lines formats lines about events: time, host, VM, and what happened. The columns grow with their contents.
type Lines struct {
	timeFormat string
	host, name int // widths
}

// NewLines returns Lines with a first column that is wide enough for the hosts. Times are local and have the format
// TimeFormat or ClockFormat.
func NewLines(timeFormat string, hosts []string) *Lines {
	l := &Lines{timeFormat: timeFormat}
	for _, h := range hosts {
		l.host = max(l.host, utf8.RuneCountInString(h))
	}
	return l
}

// Line returns a line without a line break.
func (l *Lines) Line(at time.Time, host, name, what string) string {
	host, name = Plain(host), Plain(name)
	l.name = max(l.name, min(utf8.RuneCountInString(name), widestName))
	return fmt.Sprintf("%s  %-*s  %-*s  %s", at.Local().Format(l.timeFormat), l.host, host, l.name, name, Plain(what))
}
