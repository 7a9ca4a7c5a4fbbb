package image_test

import (
	"bytes"
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/lab"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/acctest"
)

// TestAccImage_atOnce: an image is downloaded once for all hosts, and is sent to all of them at the same time. Once a
// host has a part of it, nothing passes to and from that host until the other host has a part, too: sent one after the
// other, the image never arrives.
func TestAccImage_atOnce(t *testing.T) {
	t.Parallel()
	const patience = 2 * time.Minute // It ends a test that has failed.
	l := lab.Open(t)
	name := lab.Name(t)
	content := bytes.Repeat([]byte(name), 1<<20)[:16<<20]
	var downloads atomic.Int32
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Range") != "bytes=0-0" { // A plan asks for the first byte, to see whether the image is there.
			downloads.Add(1)
		}
		http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(content))
	}))
	t.Cleanup(server.Close)
	// began says whether a part of the image is in the file of a host.
	began := func(host string) bool {
		files, _ := filepath.Glob(l.Host(host).Path("/var/lib/libvirt/"+name) + "/base-*")
		for _, file := range files {
			var is syscall.Stat_t
			if syscall.Stat(file, &is) == nil && is.Blocks > 0 {
				return true
			}
		}
		return false
	}
	var waited [2]atomic.Bool
	hosts := []acctest.Host{{Of: l.Host("kvm1")}, {Of: l.Host("kvm2")}}
	for i := range hosts {
		own, other := hosts[i].Of.Name, hosts[1-i].Of.Name
		gate := l.Gate(t, own, func() bool {
			if waited[i].Load() || !began(own) {
				return false
			}
			tick, late := time.NewTicker(10*time.Millisecond), time.After(patience)
			defer tick.Stop()
			for begun := began(other); !begun; begun = began(other) {
				select {
				case <-tick.C:
					continue
				case <-late:
					t.Errorf("host %s has a part of the image, and host %s got none meanwhile", own, other)
				}
				break
			}
			waited[i].Store(true)
			return false
		})
		hosts[i].URI, hosts[i].Settings = gate.URI(), fmt.Sprintf("ssh = { known_hosts_file = %q }", gate.KnownHostsFile)
	}
	c := acctest.NewCLI(t)
	c.Config(t, acctest.Block{Lab: l, Hosts: hosts}.String()+pool(name, "")+image(fmt.Sprintf("url = %q", server.URL), ""))
	c.Run(t, "apply")
	for i, h := range hosts {
		if !waited[i].Load() {
			t.Errorf("nothing of the image passed the gate of host %s", h.Of.Name)
		}
		file := "/var/lib/libvirt/" + name + "/base-" + sum256(content)[:12]
		if got := strings.Fields(l.Run(t, h.Of.Name, "sha256sum", file))[0]; got != sum256(content) {
			t.Errorf("the copy of host %s has %s", h.Of.Name, got)
		}
	}
	if out, empty := c.Empty(t); !empty {
		t.Errorf("the plan isn't empty: %s", out)
	}
	if n := downloads.Load(); n != 1 {
		t.Errorf("the image was downloaded %d times", n)
	}
	c.Run(t, "destroy")
	if err := clean(t, l, name, "kvm1", "kvm2")(nil); err != nil {
		t.Error(err)
	}
}
