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

// Screen is where lines are printed that stay, and on a terminal, below them, a live part that is drawn anew. Several
// goroutines may use it.
type Screen struct {
	out io.Writer
	// size gives columns and rows of the terminal, nil where there is none.
	size func() (width, height int)

	mu    sync.Mutex
	live  []string
	drawn []int // the widths of the live part's lines, as they are on the terminal
	err   error // the first error of writing
}

// NewScreen finds out whether out is a terminal that can be drawn on.
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

// Live says whether there is a live part.
func (s *Screen) Live() bool { return s.size != nil }

// Size is how many columns and rows the live part may have.
func (s *Screen) Size() (width, height int) {
	width, height = s.size()
	// What touches the last column may wrap, and the cursor stands in the last row.
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

// Write prints what a logger writes, so that it doesn't end up in the live part.
func (s *Screen) Write(p []byte) (int, error) {
	if err := s.Print(strings.Split(strings.TrimSuffix(string(p), "\n"), "\n")...); err != nil {
		return 0, err
	}
	return len(p), nil
}

// The control sequences: every terminal of the last decades has them.
const (
	upAndClear = "\x1b[%dA\r\x1b[J"
	clearBelow = "\r\x1b[J"
	wrapOff    = "\x1b[?7l"
	wrapOn     = "\x1b[?7h"
)

// writeAtOnce writes all in one piece, so that nothing is seen half drawn. The caller holds the lock.
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

// clearLive removes the live part. A terminal that has become narrower has broken its lines.
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

// cutToWidth shortens a line to what fits.
func cutToWidth(line string, width int) string {
	if utf8.RuneCountInString(line) <= width {
		return line
	}
	return string([]rune(line)[:width])
}
