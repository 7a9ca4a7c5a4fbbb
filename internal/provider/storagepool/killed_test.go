package storagepool_test

import (
	"bytes"
	"fmt"
	"io"
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

// TestAccStoragePool_killedBuild: Terraform and the provider are killed when pools on block devices are defined, and
// when their filesystem, volume group and partition table are made. The next apply makes what is missing, and nothing a
// second time, and the pools are active.
func TestAccStoragePool_killedBuild(t *testing.T) {
	t.Parallel()
	l := lab.Open(t)
	host := l.Host("kvm1")
	// begins returns the first bytes of a file of the host, or less.
	begins := func(file string, bytes int64) []byte {
		f, err := os.Open(host.Path(file))
		if err != nil {
			return nil
		}
		defer func() { _ = f.Close() }()
		content, _ := io.ReadAll(io.LimitReader(f, bytes))
		return content
	}
	kinds := []string{"fs", "logical", "disk"}
	for _, moment := range []string{"defined", "built"} {
		t.Run(moment, func(t *testing.T) {
			t.Parallel()
			name := lab.Name(t)
			pool := func(kind string) string { return name + "-" + kind }
			at := "/var/lib/libvirt/" + pool("fs")
			devices := map[string]string{}
			for _, kind := range kinds {
				devices[kind] = l.LoopDevice(t, host.Name, pool(kind), 32<<20)
			}
			says := map[string]string{
				"fs": fmt.Sprintf("target = { path = %q }\n  source = { devices = [%q], format = \"ext4\" }", at, devices["fs"]),
				"logical": fmt.Sprintf("on_destroy = \"delete\"\n  source = { name = %q, devices = [%q] }", pool("logical"),
					devices["logical"]),
				"disk": fmt.Sprintf("target = { path = \"/dev\" }\n  source = { devices = [%q], format = \"gpt\" }",
					devices["disk"]),
			}
			marks := map[string]string{"fs": "\x53\xef\x01\x00", "logical": pool("logical") + " {", "disk": "EFI PART"}
			// made is what is on the device of a pool: "" until it is made.
			made := func(kind string) string {
				content := begins("/var/lib/libvirt/"+pool(kind)+".img", 1<<20)
				if !bytes.Contains(content, []byte(marks[kind])) {
					return ""
				}
				return l.Run(t, host.Name, "blkid", "--probe", "--output", "export", devices[kind])
			}
			// so tells that it is time: nothing that the host answers from then on reaches the provider.
			so := func(kind string) func() bool {
				return func() bool {
					if moment == "built" {
						return bytes.Contains(begins("/var/lib/libvirt/"+pool(kind)+".img", 1<<20), []byte(marks[kind]))
					}
					return len(begins("/etc/libvirt/storage/"+pool(kind)+".xml", 1)) > 0
				}
			}
			gated, direct := "", acctest.OneHost(l)
			for _, kind := range kinds {
				gate := l.Gate(t, host.Name, so(kind))
				gated += acctest.Block{Lab: l, Settings: fmt.Sprintf("alias = %q", kind), Hosts: []acctest.Host{{
					Of: host, URI: gate.URI(), Settings: fmt.Sprintf("ssh = { known_hosts_file = %q }", gate.KnownHostsFile),
				}}}.String()
				resource := "resource \"virtfleet_storage_pool\" %[1]q {\n  name = %[2]q\n  type = %[1]q\n  build = true\n" +
					"  %[3]s\n  %[4]s\n}\n"
				gated += fmt.Sprintf(resource, kind, pool(kind), says[kind], "provider = virtfleet."+kind)
				direct += fmt.Sprintf(resource, kind, pool(kind), says[kind], "")
			}
			c := acctest.NewCLI(t)
			c.Config(t, gated)
			killed := c.Start(t, "apply")
			for _, kind := range kinds {
				lab.Await(t, kind+" to be "+moment, func() bool {
					select {
					case <-killed.Done():
						t.Fatalf("the apply ended early: %s", killed.Output())
					default:
					}
					return so(kind)()
				})
			}
			if err := killed.Kill(); err != nil {
				t.Fatal(err)
			}
			<-killed.Done()
			before := map[string]string{}
			for _, kind := range kinds {
				before[kind] = made(kind)
				if (before[kind] != "") != (moment == "built") {
					t.Fatalf("%s: killed too late or too early, the device has %q", kind, before[kind])
				}
				if is := l.Virsh(t, host.Name, "pool-info", pool(kind)); !strings.Contains(is, "inactive") {
					t.Errorf("the killed run has started %s", is)
				}
			}

			c.Config(t, direct)
			c.Run(t, "apply")
			if out, empty := c.Empty(t); !empty {
				t.Errorf("the plan isn't empty: %s", out)
			}
			for _, kind := range kinds {
				if now := made(kind); now == "" || before[kind] != "" && now != before[kind] {
					t.Errorf("%s: the device has %q, and had %q", kind, now, before[kind])
				}
				if is := l.Virsh(t, host.Name, "pool-info", pool(kind)); !strings.Contains(is, "running") {
					t.Errorf("the pool is %s", is)
				}
			}
			if is := l.Run(t, host.Name, "findmnt", "--noheadings", "--output", "SOURCE", at); strings.TrimSpace(is) !=
				devices["fs"] {
				t.Errorf("at %s there is %s", at, is)
			}
			c.Run(t, "destroy")
			left := l.Virsh(t, host.Name, "pool-list", "--all", "--name") + l.Virsh(t, host.Name, "secret-list") +
				l.Run(t, host.Name, "vgs", "--noheadings", "--options", "vg_name")
			if strings.Contains(left, name) {
				t.Errorf("left are %s", left)
			}
			l.Run(t, host.Name, "rmdir", at)
		})
	}
}
