package firststeps_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// step is a command of the documentation that the user ran, or the headline of those that follow.
type step struct {
	text string
	took time.Duration
	// meanwhile says that it ran while others did.
	meanwhile bool
}

// begins starts a part of the transcript.
func (u *user) begins(headline string) { u.steps = append(u.steps, step{text: headline}) }

// step notes a command that began at a time and has ended.
func (u *user) step(command string, began time.Time) {
	u.steps = append(u.steps, step{text: command, took: max(time.Since(began), 1)})
}

// transcriptFile keeps the transcript: make testacc says so, and prints the log of a test only if it fails.
const transcriptFile = "bin/first-steps.txt"

// transcript writes down what the user did, and how long each step took.
func (u *user) transcript(t *testing.T) {
	t.Helper()
	var rows strings.Builder
	var all time.Duration
	for i, s := range u.steps {
		if s.took > 0 {
			text := strings.ReplaceAll(s.text, "\n", "\n            ")
			if s.meanwhile {
				text += "  (meanwhile)"
			}
			fmt.Fprintf(&rows, "%8.1f s  %s\n", s.took.Seconds(), text)
			continue
		}
		var part time.Duration
		for _, of := range u.steps[i+1:] {
			if of.took == 0 {
				break
			}
			if !of.meanwhile {
				part += of.took
			}
		}
		all += part
		fmt.Fprintf(&rows, "== %s: %.0f s\n", s.text, part.Seconds())
	}
	text := fmt.Sprintf("What a new user types, and how long each step takes, %.1f minutes in all:\n%s", all.Minutes(),
		rows.String())
	t.Log(text)
	file := filepath.Join(root, transcriptFile)
	if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o755), os.WriteFile(file, []byte(text), 0o600)); err != nil {
		t.Error(err)
	}
}
