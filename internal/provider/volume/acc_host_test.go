package volume_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/lab"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/acctest"
)

// TestAccVolume_keyOfAnotherHost: a volume is found on its host under another key. If the key leads to another host,
// the volume of the same name there isn't taken for it: it isn't grown, and it isn't deleted.
func TestAccVolume_keyOfAnotherHost(t *testing.T) {
	t.Parallel()
	l := lab.Open(t)
	first, second, tf, name := l.StartHost(t), l.StartHost(t), acctest.NewCLI(t), lab.Name(t)
	for _, h := range []*lab.Host{first, second} {
		l.Virsh(t, h.Name, "pool-define-as", name, "dir", "--target", "/var/lib/libvirt/"+name)
		l.Virsh(t, h.Name, "pool-build", name)
		l.Virsh(t, h.Name, "pool-start", name)
	}
	l.Virsh(t, second.Name, "vol-create-as", name, "data", "8MiB", "--format", "qcow2")
	config := func(key, size string, hosts ...acctest.Host) {
		tf.Config(t, acctest.Block{Lab: l, Hosts: hosts}.String()+fmt.Sprintf(
			"resource \"virtfleet_volume\" \"this\" {\nname = \"data\"\npool = %q\nhost = %q\nsize = %q\n}\n", name, key, size))
	}
	stays := func(when string) {
		t.Helper()
		if has := xml(t, l, second.Name, name, "data"); !strings.Contains(has, fmt.Sprint(8<<20)) {
			t.Fatalf("%s, the other host has: %q", when, has)
		}
	}
	config("one", "8Mi", acctest.Host{Name: "one", Of: first})
	tf.Run(t, "apply")

	config("renamed", "8Mi", acctest.Host{Name: "renamed", Of: first})
	if out, empty := tf.Empty(t); !empty {
		t.Errorf("after the key changed, the plan isn't empty: %s", out)
	}

	config("one", "16Mi", acctest.Host{Name: "one", Of: second})
	for _, command := range [][]string{
		{"plan"}, {"apply", "-refresh=false"}, {"destroy"}, {"destroy", "-refresh=false"},
	} {
		out := tf.Fail(t, command...)
		for _, want := range []string{"hosts.one", first.HostUUID, second.HostUUID, "terraform state rm"} {
			if !strings.Contains(out, want) {
				t.Errorf("%v doesn't say %q in:\n%s", command, want, out)
			}
		}
		stays(fmt.Sprint("after ", command))
	}

	config("two", "8Mi", acctest.Host{Name: "one", Of: second}, acctest.Host{Name: "two", Of: first})
	if out, empty := tf.Empty(t); !empty {
		t.Errorf("while another host has its key, the plan isn't empty: %s", out)
	}
	tf.Run(t, "destroy", "-refresh=false")
	stays("in the end")
	if has := xml(t, l, first.Name, name, "data"); has != "" {
		t.Errorf("its own host still has the volume: %s", has)
	}
}
