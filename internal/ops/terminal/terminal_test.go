package terminal

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestPlain_removesControlCharacters(t *testing.T) {
	t.Parallel()
	if got := Plain("a\x1b[31mb\nc\u202ed é"); got != "a [31mb c d é" {
		t.Errorf("got %q", got)
	}
}

func TestLine_alignsColumns(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 1, 2, 12, 0, 0, 5e6, time.Local)
	l := NewLines(ClockFormat, []string{"kvm1", "kvm10"})
	for _, test := range [][2]string{
		{l.Line(at, "kvm1", "web", "Running"), "12:00:00.005  kvm1   web  Running"},
		{l.Line(at, "kvm10", "database", "Paused"), "12:00:00.005  kvm10  database  Paused"},
		{l.Line(at, "kvm1", "web", "Running"), "12:00:00.005  kvm1   web       Running"},
	} {
		if test[0] != test[1] {
			t.Errorf("got %q, want %q", test[0], test[1])
		}
	}
}

// TestScreen_withoutATerminal prints lines only.
func TestScreen_withoutATerminal(t *testing.T) {
	t.Parallel()
	file, err := os.Create(filepath.Join(t.TempDir(), "out"))
	if err != nil {
		t.Fatal(err)
	}
	s := NewScreen(file)
	if s.Live() {
		t.Fatal("a file is taken for a terminal")
	}
	err = errors.Join(s.Draw([]string{"one"}, []string{"live"}), s.Print("two"), file.Close())
	text, readErr := os.ReadFile(file.Name())
	if err := errors.Join(err, readErr); err != nil || string(text) != "one\ntwo\n" {
		t.Errorf("got %q, %v", text, err)
	}
}

// display is as much of a terminal as Screen needs: what is written ends up in rows.
type display struct {
	rows   []string
	row    int
	column int
}

func (d *display) Write(p []byte) (int, error) {
	for rest := string(p); rest != ""; {
		var up int
		switch {
		case strings.HasPrefix(rest, wrapOff), strings.HasPrefix(rest, wrapOn):
			rest = rest[len(wrapOn):]
			continue
		case strings.HasPrefix(rest, "\x1b[J"):
			d.rows = append(d.rows[:d.row:d.row], "")
			rest = rest[len("\x1b[J"):]
			continue
		case strings.HasPrefix(rest, "\x1b["):
			i := strings.IndexByte(rest, 'A')
			for _, digit := range rest[2:i] {
				up = up*10 + int(digit-'0')
			}
			d.row = max(0, d.row-up)
			rest = rest[i+1:]
			continue
		}
		switch c := rest[0]; c {
		case '\r':
			d.column = 0
		case '\n':
			d.row, d.column = d.row+1, 0
			if d.row == len(d.rows) {
				d.rows = append(d.rows, "")
			}
		default:
			d.rows[d.row] = d.rows[d.row][:d.column] + string(c)
			d.column++
		}
		rest = rest[1:]
	}
	return len(p), nil
}

// TestScreen_drawsAnew proves that what stays stays, and that the live part is in its place once, whatever is printed
// in between and however the terminal changes.
func TestScreen_drawsAnew(t *testing.T) {
	t.Parallel()
	d := &display{rows: []string{"$ watch", ""}, row: 1}
	width, height := 11, 5
	s := &Screen{out: d, size: func() (int, int) { return width, height }}
	shows := func(what string, err error, want ...string) {
		t.Helper()
		if diff := cmp.Diff(append(want, ""), d.rows); err != nil || diff != "" {
			t.Errorf("%s: %v\n%s", what, err, diff)
		}
	}
	shows("nothing", s.Draw(nil, nil), "$ watch")
	shows("first", s.Draw(nil, []string{"live 1", "live 2"}), "$ watch", "live 1", "live 2")
	shows("a line that stays", s.Draw([]string{"began"}, []string{"live 1", "live 3"}),
		"$ watch", "began", "live 1", "live 3")
	_, err := s.Write([]byte("level=ERROR\n"))
	shows("a log line", err, "$ watch", "began", "level=ERROR", "live 1", "live 3")
	shows("a longer line than fits", s.Draw(nil, []string{"0123456789abc"}),
		"$ watch", "began", "level=ERROR", "0123456789")
	// The terminal breaks the line of ten into two of six.
	width = 6
	d.rows = []string{"$ watc", "h", "began", "level=", "ERROR", "012345", "6789", ""}
	d.row = 7
	shows("narrower", s.Draw(nil, []string{"short"}), "$ watc", "h", "began", "level=", "ERROR", "short")
	shows("more than fits", s.Draw(nil, []string{"1", "2", "3", "4", "5", "6"}),
		"$ watc", "h", "began", "level=", "ERROR", "1", "2", "3", "4")
	shows("over", s.Draw([]string{"ended"}, nil), "$ watc", "h", "began", "level=", "ERROR", "ended")
}

// TestScreen_errorsStay proves that a reader who has left is noticed.
func TestScreen_errorsStay(t *testing.T) {
	t.Parallel()
	s := NewScreen(failing{})
	if s.Print() != nil || s.Print("x") == nil || s.Print("y") == nil {
		t.Error("the error is lost")
	}
	var b bytes.Buffer
	if n, err := NewScreen(&b).Write([]byte("a\nb\n")); n != 4 || err != nil || b.String() != "a\nb\n" {
		t.Errorf("got %d, %v, %q", n, err, b.String())
	}
}

type failing struct{}

func (failing) Write([]byte) (int, error) { return 0, os.ErrClosed }
