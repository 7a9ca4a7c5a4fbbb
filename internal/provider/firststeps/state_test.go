package firststeps_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/lab"
)

// sharedState keeps a state and its lock, for Terraform's backend "http".
type sharedState struct {
	sync.Mutex
	state, lock []byte
}

func (s *sharedState) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.Lock()
	defer s.Unlock()
	body, err := io.ReadAll(r.Body)
	switch {
	case err != nil:
		w.WriteHeader(http.StatusBadRequest)
	case r.Method == "LOCK" && s.lock != nil:
		w.WriteHeader(http.StatusLocked)
		_, _ = w.Write(s.lock)
	case r.Method == "LOCK":
		s.lock = body
	case r.Method == "UNLOCK":
		s.lock = nil
	case r.Method == http.MethodPost:
		s.state = body
	case s.state == nil:
		w.WriteHeader(http.StatusNotFound)
	default:
		_, _ = w.Write(s.state)
	}
}

const ofSharedState = `terraform {
  backend "http" {
    address        = "%URL%"
    lock_address   = "%URL%"
    unlock_address = "%URL%"
  }
}
resource "terraform_data" "any" {}
`

var idOfLock = regexp.MustCompile(`ID: +([0-9a-f-]{36})`)

// unlocks kills a run that holds the lock of a shared state, and removes the lock as the page about faults says.
func (u *user) unlocks(t *testing.T) {
	t.Helper()
	server := httptest.NewServer(&sharedState{})
	defer server.Close()
	u.write(t, "state/main.tf", strings.ReplaceAll(ofSharedState, "%URL%", server.URL), 0o644)
	dir := filepath.Join(u.home, "state")
	u.does(t, dir, initialise, "")

	file, err := os.Create(filepath.Join(u.home, "killed"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = file.Close() }()
	run := u.command(t.Context(), dir, apply)
	answers, err := run.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = answers.Close() }()
	run.Stdout, run.Stderr = file, file
	if err := run.Start(); err != nil {
		t.Fatal(err)
	}
	lab.Await(t, "the run to ask whether to apply", func() bool {
		said, err := os.ReadFile(file.Name())
		return err == nil && strings.Contains(string(said), "Enter a value")
	})
	if err := syscall.Kill(-run.Process.Pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	_ = run.Wait() // It was killed.

	said := u.planFails(t, dir)
	id := idOfLock.FindStringSubmatch(said)
	if id == nil {
		t.Fatalf("the plan doesn't say the id of the lock:\n%s", said)
	}
	u.prints(t, dir, "terraform force-unlock <id>", yes, "<id>", id[1])
	if said := u.does(t, dir, plan, ""); !strings.Contains(said, "1 to add") {
		t.Errorf("after the lock was removed:\n%s", said)
	}
}
