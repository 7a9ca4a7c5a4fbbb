package virtualmachine_test

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/lab"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/acctest"
)

// TestAccVirtualMachine_thinAndThickRoom: a thin disk that is larger than the room in the storage pools of all hosts is
// placed. A thick one of the same size is refused in the plan, which says how much room each host has. It is placed on
// the host whose pool has the room later.
func TestAccVirtualMachine_thinAndThickRoom(t *testing.T) {
	t.Parallel()
	l := lab.Open(t)
	hosts := []string{"kvm1", "kvm2"}
	for _, format := range []string{"qcow2", "raw"} {
		t.Run(format, func(t *testing.T) {
			t.Parallel()
			tf := acctest.NewCLI(t)
			name := lab.Name(t)
			l.RemoveDomain(t, name)
			at := "/var/lib/libvirt/" + name
			for _, host := range hosts {
				l.Run(t, host, "mkdir", at)
				l.Run(t, host, "mount", "-t", "tmpfs", "-o", "size=64m", "tmpfs", at)
				t.Cleanup(func() {
					if _, err := l.Host(host).Run(context.WithoutCancel(t.Context()), "umount", at); err != nil {
						t.Error(err)
					}
				})
			}
			storage := acctest.Config(l) + fmt.Sprintf(`
resource "virtfleet_storage_pool" "vms" {
  name   = %[1]q
  type   = "dir"
  target = { path = %[2]q }
}
`, name, at)
			vm := func(preallocation string) string {
				return storage + idleVM(l, name).with(hcl{"run_strategy": quote("Halted"), "disks": fmt.Sprintf(
					`{ root = { pool = virtfleet_storage_pool.vms.name, size = "100Mi", format = %q, preallocation = %q } }`,
					format, preallocation)}).String()
			}
			// has expects the disk's size for the guest on the host where the VM is, and at least or less than that many bytes
			// of its pool in use.
			has := func(when string, least, most int) (host string) {
				t.Helper()
				state, _ := tf.State(t, address)
				host = fmt.Sprint(state["current_host"])
				if l.State(t, host, name) != "shut off" {
					t.Fatalf("%s: the VM isn't on %s", when, host)
				}
				if err := contains(l.Virsh(t, host, "domblkinfo", name, "vda"), strconv.Itoa(100<<20)); err != nil {
					t.Errorf("%s: %v", when, err)
				}
				out := strings.Fields(l.Run(t, host, "df", "--output=used", "--block-size=1", at))
				if used, err := strconv.Atoi(out[len(out)-1]); err != nil || used < least || used > most {
					t.Errorf("%s: the pool has %d bytes in use, %v; want %d to %d", when, used, err, least, most)
				}
				return host
			}
			tf.Config(t, storage)
			tf.Run(t, "apply")

			tf.Config(t, vm("full"))
			out := tf.Fail(t, "plan")
			expect(t, out, "Error: No host can take the VM", "because of disks.root.pool")
			for _, host := range hosts {
				expect(t, out, `host "`+host+`": its storage pool "`+name+`" has 64Mi left, and 100Mi are needed at once`)
			}

			tf.Config(t, vm("off"))
			tf.Run(t, "apply")
			has("thin", 0, 1<<20)
			noChanges(t, tf)
			tf.Config(t, storage)
			tf.Run(t, "apply")

			l.Run(t, "kvm2", "mount", "-o", "remount,size=256m", at)
			l.Virsh(t, "kvm2", "pool-refresh", name)
			tf.Config(t, vm("full"))
			tf.Run(t, "apply")
			if host := has("thick", 100<<20, 101<<20); host != "kvm2" {
				t.Errorf("the VM is on %s; only kvm2 has the room", host)
			}
			noChanges(t, tf)
			destroyAndCheck(t, l, tf, name)
			for _, host := range hosts {
				if files := l.Run(t, host, "ls", "-A", at); files != "" {
					t.Errorf("%s: left are %s", host, files)
				}
			}
		})
	}
}
