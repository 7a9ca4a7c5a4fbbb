package volume_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/hostset"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/lab"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/libvirt"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/acctest"
)

// onVolume declares a virtual machine on a host with a volume as its disk, and more attributes.
func onVolume(host, name, volume, says string) string {
	return fmt.Sprintf(`
resource "virtfleet_virtual_machine" "this" {
  name   = %q
  type   = "qemu"
  host   = %q
  memory = { size = "32Mi" }
  disks  = { root = { volume = %q } }
  %s
  termination_grace_period = "0s"
}
`, name, host, volume, says)
}

// TestAccVolume_unfinished: while a host has the record that a run is creating a volume of storage that hosts share, no
// virtual machine gets the volume on another host, and one that has it isn't started, also not by an earlier plan. It
// starts once the record is gone, whatever other volume is being created.
func TestAccVolume_unfinished(t *testing.T) {
	t.Parallel()
	l := lab.Open(t)
	name := lab.Name(t)
	ceph := l.Ceph(t, name)
	hosts := acctest.Block{Lab: l, Hosts: []acctest.Host{{Of: l.Host("kvm1")}, {Of: l.Host("kvm2")}}}.String()
	pools := acctest.NewCLI(t)
	pools.Config(t, hosts+cephPool(ceph, name))
	pools.Run(t, "apply")
	conn, err := libvirt.Open(libvirt.Config{Name: "kvm2", URI: l.Host("kvm2").SocketURI()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	ref := name + "-ceph/root"
	record := hostset.Creation{Kind: "volume", Name: ref}
	l.Virsh(t, "kvm1", "vol-create-as", name+"-ceph", "root", "1M")
	another := hostset.Creation{Kind: "volume", Name: name + "-ceph/another"}
	l.Virsh(t, "kvm1", "vol-create-as", name+"-ceph", "another", "1M")
	tf, other := acctest.NewCLI(t), acctest.NewCLI(t)
	tf.Config(t, hosts+onVolume("kvm1", name, ref, `run_strategy = "Halted"`))
	tf.Run(t, "apply")
	tf.Config(t, hosts+onVolume("kvm1", name, ref, ""))
	tf.Run(t, "plan", "-out=before")
	other.Config(t, hosts+onVolume("kvm1", name+"-2", ref, `run_strategy = "Halted"`))
	other.Run(t, "plan", "-out=before")

	for _, r := range []hostset.Creation{record, another} {
		if err := r.Begin(t.Context(), conn, `{"format":"raw","bytes":1048576}`); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []*acctest.CLI{tf, other} {
		for _, args := range [][]string{{"plan"}, {"apply", "before"}} {
			out := c.Fail(t, args...)
			for _, want := range []string{
				fmt.Sprintf("volume %q may lack a part of its content", ref), `through host "kvm2"`, record.UsageID(),
			} {
				if !strings.Contains(out, want) {
					t.Errorf("%s doesn't say %q: %s", args, want, out)
				}
			}
		}
	}
	if state := l.Virsh(t, "kvm1", "domstate", name); strings.TrimSpace(state) != "shut off" {
		t.Errorf("the virtual machine is %s", state)
	}
	if all := l.Virsh(t, "kvm1", "list", "--all", "--name"); strings.Contains(all, name+"-2") {
		t.Errorf("the host has %s", all)
	}

	if err := record.End(t.Context(), conn); err != nil {
		t.Fatal(err)
	}
	tf.Run(t, "apply")
	if state := l.Virsh(t, "kvm1", "domstate", name); strings.TrimSpace(state) != "running" {
		t.Errorf("the virtual machine is %s", state)
	}
	if out, empty := tf.Empty(t); !empty {
		t.Errorf("the plan isn't empty: %s", out)
	}
	if err := another.End(t.Context(), conn); err != nil {
		t.Error(err)
	}
	tf.Run(t, "destroy")
	l.Virsh(t, "kvm1", "vol-delete", "root", name+"-ceph")
	l.Virsh(t, "kvm1", "vol-delete", "another", name+"-ceph")
	pools.Run(t, "destroy")
}
