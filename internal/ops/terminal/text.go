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
	// ClockFormat is for people who watch.
	ClockFormat = "15:04:05.000"
	// None stands in a column that has no value.
	None = "-"
	// widestName is where the column of names stops to grow.
	widestName = 32
)

// Plain makes text that comes from elsewhere fit for one line of a terminal: what would steer it, or begin another
// line, becomes a space.
func Plain(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return ' '
	}, s)
}

// Lines makes lines of what happens: when, on which host, to which VM, what. The columns grow with what was in them.
type Lines struct {
	timeFormat string
	host, name int // widths
}

// NewLines begins with a column that is wide enough for the hosts. Times are in the format, TimeFormat or ClockFormat,
// and in local time.
func NewLines(timeFormat string, hosts []string) *Lines {
	l := &Lines{timeFormat: timeFormat}
	for _, h := range hosts {
		l.host = max(l.host, utf8.RuneCountInString(h))
	}
	return l
}

// Line is a line without its end.
func (l *Lines) Line(at time.Time, host, name, what string) string {
	host, name = Plain(host), Plain(name)
	l.name = max(l.name, min(utf8.RuneCountInString(name), widestName))
	return fmt.Sprintf("%s  %-*s  %-*s  %s", at.Local().Format(l.timeFormat), l.host, host, l.name, name, Plain(what))
}
