package lab

import (
	"bytes"
	"errors"
	"os"
	"regexp"
	"strconv"
	"testing"
)

// pagesAwaited is how often a guest has waited for a page on its new host when it can be expected to have what it needs
// to be interrupted.
const pagesAwaited = 50

var postCopyRequests = regexp.MustCompile(`(?m)^\s*memory_postcopy_requests\s*:\s*(\d+)`)

// InPostCopy says that a guest runs on the target of its migration while the rest of its memory comes, and that losing
// the connection is noticed there and can be mended. Nothing else may move to the target.
//
// A guest needs a while to come that far. Its processor holds the lock without which QEMU answers nothing while it
// waits for a page in order to take an interrupt (QEMU 7.2 without KVM). Where the connection breaks then, libvirt
// isn't told that the guest was started, or can't have the migration resumed.
func (l *Lab) InPostCopy(t testing.TB, from, to *Host, domain string) bool {
	t.Helper()
	log, err := os.ReadFile(to.Path(libvirtdLog))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
	// libvirt waits for what the guest needs to start and, when QEMU has said that it has started, for the rest.
	finish := max(bytes.LastIndex(log, []byte("qemuMigrationDstFinish:")), 0)
	if bytes.Count(log[finish:], []byte("Waiting for incoming migration to complete")) != 2 {
		return false
	}
	job, err := l.TryVirsh(t, from.Name, "domjobinfo", domain, "--rawstats")
	if err != nil {
		return false
	}
	said := postCopyRequests.FindStringSubmatch(job)
	if said == nil {
		return false
	}
	requests, err := strconv.Atoi(said[1])
	return err == nil && requests >= pagesAwaited
}
