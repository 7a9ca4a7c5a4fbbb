package faultmatrix

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/lab"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/acctest"
)

// TestAccFaults_objectsKilled: Terraform and the provider are killed in the middle of creating a network, a filter, a
// pool, a volume and a secret. They are on the host and not in the state. The next apply completes each of them, and
// there is one of each. The copy, of which a part may be missing, is made again.
func TestAccFaults_objectsKilled(t *testing.T) {
	t.Parallel()
	l := lab.Open(t)
	h, name := l.Host("kvm1"), lab.Name(t)
	dir := "/var/lib/libvirt/" + name
	l.Run(t, h.Name, "sh", "-c", fmt.Sprintf("mkdir -p %[1]s-0 && dd if=/dev/urandom of=%[1]s-0/seed bs=1M count=4", dir))
	l.Virsh(t, h.Name, "pool-create-as", name+"-0", "dir", "--target", dir+"-0")
	t.Cleanup(func() {
		if _, err := h.Run(context.WithoutCancel(t.Context()), "sh", "-c", fmt.Sprintf(
			"virsh pool-destroy %s-0 && rm -r %[2]s %[2]s-0", name, dir)); err != nil {
			t.Error(err)
		}
	})
	config, direct := "", acctest.OneHost(l)
	// Each has a provider of its own, whose connection goes silent when the host has the object.
	add := func(kind, attributes string, made func() bool) {
		gate := l.Gate(t, h.Name, made)
		config += acctest.Block{Lab: l, Settings: fmt.Sprintf("alias = %q", kind), Hosts: []acctest.Host{{
			Of: h, URI: gate.URI(), Settings: fmt.Sprintf("ssh = { known_hosts_file = %q }", gate.KnownHostsFile),
		}}}.String()
		body := "resource \"virtfleet_%s\" \"this\" {\n  %s\n  %s\n}\n"
		config += fmt.Sprintf(body, kind, "provider = virtfleet."+kind, attributes)
		direct += fmt.Sprintf(body, kind, "", attributes)
	}
	file := func(at string) func() bool {
		return func() bool {
			_, err := os.Stat(h.Path(at))
			return err == nil
		}
	}
	secrets := func() (all []string) {
		files, _ := filepath.Glob(h.Path("/etc/libvirt/secrets") + "/*.xml")
		for _, f := range files {
			if text, err := os.ReadFile(f); err == nil && strings.Contains(string(text), name) {
				all = append(all, string(text))
			}
		}
		return all
	}
	secret := func() bool {
		return slices.ContainsFunc(secrets(), func(s string) bool { return strings.Contains(s, "<name>"+name+"</name>") })
	}
	named := fmt.Sprintf("name = %q\n  ", name)
	made := map[string]func() bool{
		"network":        file("/etc/libvirt/qemu/networks/" + name + ".xml"),
		"network_filter": file("/etc/libvirt/nwfilter/" + name + ".xml"),
		"storage_pool":   file("/etc/libvirt/storage/" + name + ".xml"),
		"volume":         file(dir + "-0/" + name),
		"secret":         secret,
	}
	for kind, attributes := range map[string]string{
		"network":        named + `forward = { mode = "isolated" }`,
		"network_filter": named + `rules = [{ action = "drop", direction = "in", protocol = "tcp" }]`,
		"storage_pool":   named + fmt.Sprintf("type = \"dir\"\n  target = { path = %q }", dir),
		"volume": named + fmt.Sprintf(
			"pool = \"%[1]s-0\"\n  copy_of = \"%[1]s-0/seed\"\n  format = \"raw\"", name),
		"secret": fmt.Sprintf("usage = \"ceph\"\n  usage_id = %q\n  private = false\n  value_wo = \"hush\"", name),
	} {
		add(kind, attributes, made[kind])
	}
	c := acctest.NewCLI(t)
	c.Config(t, config)
	killed := c.Start(t, "apply")
	for kind, is := range made {
		lab.Await(t, "the "+kind, func() bool {
			select {
			case <-killed.Done():
				t.Fatalf("the apply ended early: %s", killed.Output())
			default:
			}
			return is()
		})
	}
	if err := killed.Kill(); err != nil {
		t.Fatal(err)
	}
	<-killed.Done()
	uuid := l.Virsh(t, h.Name, "net-uuid", name)
	l.Run(t, h.Name, "dd", "if=/dev/zero", "of="+dir+"-0/"+name, "bs=1M", "count=1", "conv=notrunc")

	c.Config(t, direct)
	c.Run(t, "apply")
	if got := l.Virsh(t, h.Name, "net-uuid", name); got != uuid {
		t.Errorf("the network is %s, not %s", got, uuid)
	}
	for _, command := range [][]string{{"net-info", name}, {"pool-info", name}} {
		if out := l.Virsh(t, h.Name, command...); !strings.Contains(out, "yes") && !strings.Contains(out, "running") {
			t.Errorf("%v: %s", command, out)
		}
	}
	l.Virsh(t, h.Name, "nwfilter-dumpxml", name)
	l.Run(t, h.Name, "cmp", dir+"-0/seed", dir+"-0/"+name)
	if all := secrets(); len(all) != 1 {
		t.Errorf("the host has the secrets %v", all)
	}
	attributes, _ := c.State(t, "virtfleet_secret.this")
	if got := l.Virsh(t, h.Name, "secret-get-value", "--plain", fmt.Sprint(attributes["id"])); got != "hush" {
		t.Errorf("the secret has another value")
	}
	if out, empty := c.Empty(t); !empty {
		t.Errorf("the plan isn't empty: %s", out)
	}
	c.Run(t, "destroy")
	for kind, is := range made {
		if is() {
			t.Errorf("the host still has the %s", kind)
		}
	}
	if all := secrets(); len(all) > 0 {
		t.Errorf("the host still has the secrets %v", all)
	}
}
