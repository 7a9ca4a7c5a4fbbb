package provider_test

import (
	"bytes"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/lab"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/acctest"
)

// TestAccProvider_generatedConfiguration: every kind of object that isn't a VM is imported with the configuration that
// Terraform generates. That changes nothing on a host. It is valid as it is, except for what no host can tell: where an
// image comes from, and the value of a secret.
func TestAccProvider_generatedConfiguration(t *testing.T) {
	t.Parallel()
	l := lab.Open(t)
	name := lab.Name(t)
	content := bytes.Repeat([]byte("image "), 1<<10)
	file := filepath.Join(t.TempDir(), "disk.img")
	if err := os.WriteFile(file, content, 0o600); err != nil {
		t.Fatal(err)
	}
	first := acctest.NewCLI(t)
	first.Config(t, acctest.Config(l)+strings.NewReplacer("NAME", name, "FILE", file).Replace(`
resource "virtfleet_storage_pool" "pool" {
  name   = "NAME"
  type   = "dir"
  target = { path = "/var/lib/libvirt/NAME" }
}
resource "virtfleet_volume" "volume" {
  name = "data"
  pool = virtfleet_storage_pool.pool.name
  host = "kvm1"
  size = "8Mi"
}
resource "virtfleet_image" "image" {
  name   = "base"
  pool   = virtfleet_storage_pool.pool.name
  source = { file = "FILE" }
}
resource "virtfleet_network" "network" {
  name    = "NAME"
  hosts   = ["kvm1"]
  forward = { mode = "isolated" }
  domain  = { name = "example.test" }
  ips = [
    { address = "10.219.7.1/24", dhcp = { ranges = [{ start = "10.219.7.50", end = "10.219.7.60" }] } },
    { address = "fd00:219:7::1/64", dhcp = { ranges = [{ start = "fd00:219:7::50", end = "fd00:219:7::60" }] } },
  ]
}
resource "virtfleet_network_dhcp_host" "reservation" {
  network = virtfleet_network.network.name
  mac     = "52:54:00:12:34:56"
  ip      = "10.219.7.20"
  name    = "web"
}
resource "virtfleet_network_dhcp_host" "six" {
  network = virtfleet_network.network.name
  duid    = "00:03:00:01:52:54:00:12:34:56"
  ip      = "fd00:219:7::20"
}
resource "virtfleet_network_filter" "filter" {
  name  = "NAME"
  rules = [{ action = "drop", direction = "in", protocol = "tcp", match = { dstportstart = "22" } }]
}
resource "virtfleet_secret" "secret" {
  usage    = "ceph"
  usage_id = "NAME"
  value_wo = "hush"
}
resource "virtfleet_migration_policy" "migration" {
  name              = "NAME"
  selector          = { labels = { only = "NAME" } }
  migration_options = { bandwidth = "500Mi", allow_auto_converge = true }
}
resource "virtfleet_eviction_policy" "eviction" {
  name     = "NAME"
  selector = { labels = { only = "NAME" } }
  strategy = "LiveMigrateIfPossible"
  fallback = "Save"
  timeout  = "30m"
}
`))
	first.Run(t, "apply")
	image, _ := first.State(t, "virtfleet_image.image")
	ids := map[string]string{
		"virtfleet_storage_pool.pool":             name,
		"virtfleet_volume.volume":                 name + "/data",
		"virtfleet_image.image":                   fmt.Sprint(image["id"]),
		"virtfleet_network.network":               name,
		"virtfleet_network_dhcp_host.reservation": name + "/52:54:00:12:34:56",
		"virtfleet_network_dhcp_host.six":         name + "/00:03:00:01:52:54:00:12:34:56",
		"virtfleet_network_filter.filter":         name,
		"virtfleet_secret.secret":                 "ceph/" + name,
		"virtfleet_migration_policy.migration":    name,
		"virtfleet_eviction_policy.eviction":      name,
	}
	var imports strings.Builder
	for _, at := range slices.Sorted(maps.Keys(ids)) {
		fmt.Fprintf(&imports, "import {\n  to = %s\n  id = %q\n}\n", at, ids[at])
	}
	tf := acctest.NewCLI(t)
	tf.Config(t, acctest.Config(l)+imports.String())
	generated := filepath.Join(tf.Dir, "generated.tf")
	out := tf.Fail(t, "plan", "-generate-config-out="+generated)
	for _, lacks := range []*regexp.Regexp{
		shown("virtfleet_image.image", "source"), shown("virtfleet_secret.secret", "value_wo"),
	} {
		if !lacks.MatchString(out) {
			t.Errorf("unexpected: %s", out)
		}
	}
	config, err := os.ReadFile(generated)
	if err != nil {
		t.Fatal(err)
	}
	// What no host can tell is added by hand. The source of an image is read, and compared with the copies.
	edited := regexp.MustCompile(`( pool += .*\n +)source += null`).ReplaceAllString(string(config),
		fmt.Sprintf("${1}source = { file = %q }", file))
	edited = regexp.MustCompile(`value_wo +=.*`).ReplaceAllString(edited, `value_wo = "other"`)
	if err := os.WriteFile(generated, []byte(edited), 0o600); err != nil {
		t.Fatal(err)
	}
	copies := func() string {
		return l.Run(t, "kvm1", "stat", "-c", "%n %i %z", "/var/lib/libvirt/"+name+"/"+fmt.Sprint(image["volume"]))
	}
	before := copies()
	actions := tf.Actions(t)
	for at := range ids {
		want := "no-op"
		if at == "virtfleet_image.image" {
			want = "update"
		}
		if actions[at] != want {
			t.Errorf("%s: %q", at, actions[at])
		}
	}
	if t.Failed() {
		t.Logf("%s\n%s", tf.Run(t, "show", "planned"), config)
		t.FailNow()
	}
	if strings.Contains(string(config), "hush") {
		t.Error("the configuration has the secret's value")
	}
	tf.Run(t, "apply")
	if after := copies(); after != before {
		t.Errorf("the image's copy is %s; it was %s", after, before)
	}
	secret, _ := tf.State(t, "virtfleet_secret.secret")
	if out, err := l.TryVirsh(t, "kvm1", "secret-get-value", fmt.Sprint(secret["id"])); err == nil {
		t.Errorf("the secret isn't private any more: %s", out)
	}
	if out, empty := tf.Empty(t); !empty {
		t.Errorf("the plan isn't empty: %s", out)
	}
	if out, empty := first.Empty(t); !empty {
		t.Errorf("something has changed: %s", out)
	}
	first.Run(t, "destroy") // The generated configuration has no references, and so no order.
	for _, host := range []string{"kvm1", "kvm2"} {
		for _, list := range []string{"net-list --all", "nwfilter-list", "pool-list --all", "secret-list"} {
			if left := l.Virsh(t, host, strings.Fields(list)...); strings.Contains(left, name) {
				t.Errorf("host %s still has %s", host, left)
			}
		}
		l.Run(t, host, "rmdir", "/var/lib/libvirt/"+name)
	}
}
