package acctest

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// The beginnings of the files, in a folder of providerLogs, to which a provider writes what its race detector finds,
// and its standard error.
const (
	raceLog   = "race"
	stderrLog = "stderr"
)

// providerLogs returns a folder for what providers that Terraform starts write, and has the test report races and
// crashes at its end. A comma, a colon or a space in the path, as in the name of a test, would end an option of the
// race detector.
func providerLogs(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "virtfleet-race-") //nolint:usetesting // that of t has the name of the test
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		reportDefects(t, dir)
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	return dir
}

// crash is how the Go runtime begins to say why it ends the process.
var crash = regexp.MustCompile(`(?m)^(panic: |fatal error: |SIG[A-Z]+: )`)

// reportDefects fails the test if the race detector found something in a provider that Terraform started, or if one
// crashed, because Terraform shows neither that provider's output nor its exit code. The detector writes to the file at
// once. So providers don't wait for a second when they exit, the detector's default: Terraform would wait for that, two
// to four times in every command.
func reportDefects(t testing.TB, dir string) {
	t.Helper()
	files, err := os.ReadDir(dir)
	if err != nil {
		t.Error(err)
	}
	for _, file := range files {
		said, err := os.ReadFile(filepath.Join(dir, file.Name()))
		switch at := crash.FindIndex(said); {
		case err != nil:
			t.Error(err)
		case strings.HasPrefix(file.Name(), raceLog):
			t.Errorf("a race in the provider:\n%s", said)
		case at != nil:
			t.Errorf("the provider crashed:\n%s", said[at[0]:])
		}
	}
}
