package provider_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/lab"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/acctest"
)

// TestAccProvider_timeouts: each operation of an object that isn't a VM ends at the limit in its timeouts. The error
// names the attribute and says to raise it. A change of timeouts changes nothing else. The next apply continues.
func TestAccProvider_timeouts(t *testing.T) {
	t.Parallel()
	l := lab.Open(t)
	name := lab.Name(t)
	files := t.TempDir()
	for _, content := range []string{"before", "after"} {
		file := filepath.Join(files, content)
		if err := os.WriteFile(file, bytes.Repeat([]byte(content), 1<<10), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	// No resource needs another one: otherwise the failure of one would keep the next from being tried.
	named := strings.NewReplacer("NAME", name, "FILES", files)
	l.Run(t, "kvm1", "sh", "-ec", named.Replace(`
virsh pool-define-as NAME-images dir --target /var/lib/libvirt/NAME-images
virsh pool-build NAME-images
virsh pool-start NAME-images
echo '<network><name>NAME-lan</name><ip address="10.219.8.1" netmask="255.255.255.0"><dhcp>
  <range start="10.219.8.50" end="10.219.8.60"/></dhcp></ip></network>' >/tmp/NAME.xml
virsh net-define /tmp/NAME.xml
rm /tmp/NAME.xml`))
	t.Cleanup(func() {
		if _, err := l.Host("kvm1").Run(context.WithoutCancel(t.Context()), "sh", "-ec", named.Replace(`
virsh net-undefine NAME-lan
virsh pool-destroy NAME-images
virsh pool-delete NAME-images
virsh pool-undefine NAME-images`)); err != nil {
			t.Error(err)
		}
	})
	// CONTENT and YES are what changes in place.
	resources := map[string]string{
		"storage_pool": `name = "NAME"
			type = "dir"
			target = { path = "/var/lib/libvirt/NAME" }
			autostart = YES`,
		"image": `name = "NAME"
			pool = "NAME-images"
			source = { file = "FILES/CONTENT" }`,
		"network": `name = "NAME"
			autostart = YES`,
		"network_dhcp_host": `network = "NAME-lan"
			mac = "52:54:00:00:00:01"
			ip = "10.219.8.20"
			name = "CONTENT"`,
		"network_filter": `name = "NAME"
			rules = [{ action = "drop", direction = "in", protocol = "tcp" }]
			priority = YES ? 10 : 20`,
		"secret": `usage = "ceph"
			usage_id = "NAME"
			value_wo = "hush"
			description = "CONTENT"`,
		"eviction_policy": `name = "NAME"
			strategy = "LiveMigrate"
			selector = { names = ["NAME", "CONTENT"] }`,
		"migration_policy": `name = "NAME"
			selector = { names = ["NAME", "CONTENT"] }
			migration_options = { bandwidth = "1Gi" }`,
	}
	tf := acctest.NewCLI(t)
	configure := func(content, timeouts string) {
		t.Helper()
		changing := strings.NewReplacer("CONTENT", content, "YES", strconv.FormatBool(content == "after"))
		config := acctest.OneHost(l)
		for kind, says := range resources {
			config += fmt.Sprintf("resource \"virtfleet_%s\" \"this\" {\n%s\n%s\n}\n", kind,
				changing.Replace(named.Replace(says)), timeouts)
		}
		tf.Config(t, config)
	}
	fails := func(command, operation string) {
		t.Helper()
		out := ""
		for _, failure := range strings.Split(tf.Fail(t, command), "Error: ")[1:] {
			failure, _, _ = strings.Cut(failure, "Warning: ") // An image warns of its pool, too.
			out += failure
		}
		for _, says := range []string{"limit of timeouts." + operation + ", which is 1ns", "raise timeouts." + operation} {
			if got := strings.Count(out, says); got != len(resources) {
				t.Errorf("%d of %d errors say %q:\n%s", got, len(resources), says, out)
			}
		}
	}
	succeeds := func() {
		t.Helper()
		tf.Run(t, "apply")
		if out, empty := tf.Empty(t); !empty {
			t.Errorf("the plan isn't empty: %s", out)
		}
	}
	configure("before", `timeouts = { create = "1ns" }`)
	fails("apply", "create")
	configure("before", `timeouts = { create = "10m" }`)
	succeeds()
	configure("after", `timeouts = { update = "1ns" }`)
	fails("apply", "update")
	configure("after", `timeouts = { update = "10m" }`)
	succeeds()
	configure("after", `timeouts = { delete = "1ns" }`)
	for address, actions := range tf.Actions(t) {
		if actions != "update" {
			t.Errorf("%s: with other timeouts, the plan is %q", address, actions)
		}
	}
	succeeds()
	fails("destroy", "delete")
	configure("after", "")
	succeeds()
	tf.Run(t, "destroy")
	left := l.Run(t, "kvm1", "sh", "-c", named.Replace("{ virsh pool-list --all --name; virsh net-list --all --name; "+
		"virsh nwfilter-list; virsh secret-list; virsh vol-list NAME-images; virsh net-dumpxml NAME-lan; } | "+
		"grep -v -e 'NAME-images$' -e NAME-lan | grep -e NAME -e \"'after'\" || true"))
	if left != "" {
		t.Errorf("the host still has %s", left)
	}
}
