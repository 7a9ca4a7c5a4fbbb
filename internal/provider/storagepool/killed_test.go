package storagepool_test

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/lab"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/acctest"
)

// TestAccStoragePool_killed: a provider is killed when it has made the pool on one host and waits for the other. The
// next apply takes over what is there, and completes it, but not before the killed one has stopped.
func TestAccStoragePool_killed(t *testing.T) {
	t.Parallel()
	l := lab.Open(t)
	name := lab.Name(t)
	at := "/var/lib/libvirt/" + name
	defined := func() bool {
		for _, host := range []string{"kvm1", "kvm2"} {
			if _, err := os.Stat(l.Host(host).Path("/etc/libvirt/storage/" + name + ".xml")); err == nil {
				return true
			}
		}
		return false
	}
	gate := l.Gate(t, "kvm2", defined)
	config := func(second acctest.Host, dir string) string {
		return acctest.Block{Lab: l, Hosts: []acctest.Host{{Of: l.Host("kvm1")}, second}}.String() + fmt.Sprintf(`
resource "virtfleet_storage_pool" "this" {
  name   = %q
  type   = "dir"
  target = { path = %q }
}
`, name, dir)
	}
	c := acctest.NewCLI(t)
	c.Config(t, config(acctest.Host{
		Of: l.Host("kvm2"), URI: gate.URI(), Settings: fmt.Sprintf("ssh = { known_hosts_file = %q }", gate.KnownHostsFile),
	}, at))
	killed := c.Start(t, "apply")
	lab.Await(t, "the pool on kvm1", func() bool {
		select {
		case <-killed.Done():
			t.Fatalf("the apply ended early: %s", killed.Output())
		default:
		}
		info, err := l.TryVirsh(t, "kvm1", "pool-info", name)
		return err == nil && strings.Contains(info, "running")
	})

	// The next one begins while the first is still at work. Its configuration has another directory.
	c = acctest.NewCLI(t)
	trace := c.Trace()
	c.Config(t, config(acctest.Host{Of: l.Host("kvm2")}, at+"-2"))
	next := c.Start(t, "apply")
	lab.Await(t, "the second apply to wait for the first", func() bool {
		select {
		case <-next.Done():
			t.Fatalf("the second apply didn't wait: %s", next.Output())
		default:
		}
		said, _ := os.ReadFile(trace)
		return strings.Contains(string(said), "waiting for another run")
	})
	if have := xml(t, l, l.Host("kvm1"), name); !strings.Contains(have, "<path>"+at+"</path>") {
		t.Errorf("while the first apply is at work, kvm1 has %s", have)
	}
	if err := killed.Kill(); err != nil {
		t.Fatal(err)
	}
	<-killed.Done()
	if out, err := next.Wait(); err != nil {
		t.Fatalf("the second apply: %v: %s", err, out)
	}
	if err := has(t, l, name, "<path>"+at+"-2</path>", l.Host("kvm1"), l.Host("kvm2"))(nil); err != nil {
		t.Error(err)
	}
	if out, empty := c.Empty(t); !empty {
		t.Errorf("the plan isn't empty: %s", out)
	}
	c.Run(t, "destroy")
	for _, host := range []string{"kvm1", "kvm2"} {
		if left := xml(t, l, l.Host(host), name); left != "" {
			t.Errorf("host %s still has %s", host, left)
		}
		if marks := l.Virsh(t, host, "secret-list"); strings.Contains(marks, name) {
			t.Errorf("host %s still has %s", host, marks)
		}
		l.Run(t, host, "rm", "-rf", at, at+"-2")
	}
}
