package terminal

import (
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"unicode/utf8"

	"golang.org/x/term"
)

// Screen prints lines that stay, and on a terminal, a live part below them that is redrawn. Several goroutines may use
// it.
type Screen struct {
	out io.Writer
	// size returns the columns and rows of the terminal. It is nil if there is no terminal.
	size func() (width, height int)

	mu    sync.Mutex
	live  []string
	drawn []int // the widths of the live part's lines on the terminal
	err   error // the first write error
}

// NewScreen returns a screen on out, with a live part if out is a terminal that supports it.
func NewScreen(out io.Writer) *Screen {
	s := &Screen{out: out}
	file, ok := out.(*os.File)
	if !ok || !term.IsTerminal(int(file.Fd())) || os.Getenv("TERM") == "dumb" {
		return s
	}
	s.size = func() (int, int) {
		if width, height, err := term.GetSize(int(file.Fd())); err == nil && width > 0 && height > 0 {
			return width, height
		}
		return 80, 24
	}
	return s
}

// Live reports whether there is a live part.
func (s *Screen) Live() bool { return s.size != nil }

// Size returns how many columns and rows the live part may have.
func (s *Screen) Size() (width, height int) {
	width, height = s.size()
	// Text in the last column may wrap, and the cursor is in the last row.
	return max(width-1, 1), max(height-1, 1)
}

// Print prints lines that stay.
func (s *Screen) Print(lines ...string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.writeAtOnce(lines)
}

// Draw prints lines that stay, and replaces the live part.
func (s *Screen) Draw(stay, live []string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.live = live
	return s.writeAtOnce(stay)
}

// Write prints a logger's output above the live part.
func (s *Screen) Write(p []byte) (int, error) {
	if err := s.Print(strings.Split(strings.TrimSuffix(string(p), "\n"), "\n")...); err != nil {
		return 0, err
	}
	return len(p), nil
}

// The control sequences, which every terminal of the last decades supports.
const (
	upAndClear = "\x1b[%dA\r\x1b[J"
	clearBelow = "\r\x1b[J"
	wrapOff    = "\x1b[?7l"
	wrapOn     = "\x1b[?7h"
)

// writeAtOnce writes everything in one call, so that no half-drawn output is visible. The caller holds the lock.
func (s *Screen) writeAtOnce(stay []string) error {
	var b strings.Builder
	if s.Live() {
		s.clearLive(&b)
	}
	for _, line := range stay {
		b.WriteString(line + "\n")
	}
	if s.Live() {
		s.drawLive(&b)
	}
	if b.Len() > 0 && s.err == nil {
		_, s.err = io.WriteString(s.out, b.String())
	}
	return s.err
}

// clearLive removes the live part. A terminal that has become narrower has wrapped its lines.
func (s *Screen) clearLive(b *strings.Builder) {
	width, _ := s.size()
	rows := 0
	for _, w := range s.drawn {
		rows += max(1, (w+width-1)/width)
	}
	if rows > 0 {
		fmt.Fprintf(b, upAndClear, rows)
	} else {
		b.WriteString(clearBelow)
	}
}

func (s *Screen) drawLive(b *strings.Builder) {
	width, height := s.Size()
	s.drawn = s.drawn[:0]
	if len(s.live) == 0 {
		return
	}
	b.WriteString(wrapOff)
	for _, line := range s.live[:min(len(s.live), height)] {
		line = cutToWidth(line, width)
		s.drawn = append(s.drawn, utf8.RuneCountInString(line))
		b.WriteString(line + "\n")
	}
	b.WriteString(wrapOn)
}

// cutToWidth cuts a line to the width.
func cutToWidth(line string, width int) string {
	if utf8.RuneCountInString(line) <= width {
		return line
	}
	return string([]rune(line)[:width])
}
