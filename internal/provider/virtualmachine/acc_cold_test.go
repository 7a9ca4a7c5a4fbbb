package virtualmachine_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/lab"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/acctest"
)

// imageWithData is a qcow2 image with that many MiB of data, on one host in its pool; copies of it go when the test
// ends.
func imageWithData(t *testing.T, l *lab.Lab, host, name string, mib int, others ...string) string {
	t.Helper()
	image := l.Image(t, host, name, "qcow2", 1<<30)
	l.Run(t, host, "sh", "-c", fmt.Sprintf("head -c %[2]dM /dev/urandom >%[1]s.raw && "+
		"qemu-io -f qcow2 -c 'write -q -s %[1]s.raw 1M %[2]dM' %[1]s && rm %[1]s.raw", image, mib))
	for _, other := range others {
		atEnd(t, l, other, "rm", "-f", image)
	}
	return image
}

// atEnd runs a command on a host when the test ends.
func atEnd(t *testing.T, l *lab.Lab, host, command string, args ...string) {
	t.Helper()
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), time.Minute)
		defer cancel()
		if _, err := l.Host(host).Run(ctx, command, args...); err != nil {
			t.Error(err)
		}
	})
}

// TestAccVirtualMachine_moveCold: a change of host moves a VM that is off with its disk and its firmware's
// variables. A file that is there already fails the plan. A provider that is killed in the middle leaves the VM where
// it was, and the next apply moves it; there it starts.
func TestAccVirtualMachine_moveCold(t *testing.T) {
	t.Parallel()
	l := lab.Open(t)
	tf := acctest.NewCLI(t)
	name := lab.Name(t)
	l.RemoveDomain(t, name)
	image := imageWithData(t, l, "kvm1", name+".qcow2", 256, "kvm2")
	nvram := "/var/lib/libvirt/qemu/nvram/" + name + "_VARS.fd"
	vm := idleVM(l, name).with(hcl{
		"firmware": `{ type = "efi" }`, "disks": fmt.Sprintf("{ root = { volume = %q } }", image),
	})
	config := func(host, strategy, options string) {
		tf.Config(t, providerBlock(l, options)+
			vm.with(hcl{"host": quote(host), "run_strategy": quote(strategy)}).String())
	}
	sum := func(host, file string) string {
		t.Helper()
		return l.Run(t, host, "sh", "-c", "sha256sum <"+file)
	}
	config("kvm1", "Always", "")
	tf.Run(t, "apply")
	t.Cleanup(func() { tf.Run(t, "destroy") })
	config("kvm1", "Halted", "")
	tf.Run(t, "apply")
	disk, variables := sum("kvm1", image), sum("kvm1", nvram)

	l.Run(t, "kvm2", "sh", "-c", "echo mine >"+image)
	l.RefreshPool(t, "kvm2")
	config("kvm2", "Halted", "")
	refusal := inOrder("DiskPathTaken", image, `host "kvm2"`, "none is ever overwritten")
	if out := tf.Fail(t, "plan"); !refusal.MatchString(out) {
		t.Errorf("with a file that is there already: %s", out)
	}
	l.Run(t, "kvm2", "rm", image)
	l.RefreshPool(t, "kvm2")

	// What has begun to arrive is all that ever arrives, however late the provider is killed.
	begun := func() bool {
		var stat unix.Stat_t
		return unix.Stat(l.Host("kvm2").Path(image), &stat) == nil && stat.Blocks > 0
	}
	tf.Config(t, acctest.Block{
		Lab: l, Hosts: []acctest.Host{{Of: l.Host("kvm1")}, viaProxy(l.Gate(t, "kvm2", begun), "kvm2")},
	}.String()+vm.with(hcl{"host": quote("kvm2"), "run_strategy": quote("Halted")}).String())
	apply := tf.Start(t, "apply")
	waitWhileRunning(t, "the copy to begin", apply, begun)
	if err := apply.Kill(); err != nil {
		t.Fatal(err)
	}
	if out, err := apply.Wait(); err == nil {
		t.Errorf("killed, it succeeded:\n%s", out)
	}
	if err := onHosts(t, l, name, "shut off", "")(nil); err != nil {
		t.Error(err)
	}
	if half := l.Run(t, "kvm2", "sh", "-c", "ls "+image+" || true"); half == "" {
		t.Error("nothing was left behind; the test proves nothing")
	}

	config("kvm2", "Halted", "migration_options = { keep_source_disks = false }")
	out := tf.Run(t, "apply")
	if err := onHosts(t, l, name, "", "shut off")(nil); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
	if after := sum("kvm2", image); after != disk {
		t.Errorf("the disk is %s, was %s", after, disk)
	}
	if after := sum("kvm2", nvram); after != variables {
		t.Errorf("the variables are %s, were %s", after, variables)
	}
	if left := l.Run(t, "kvm1", "sh", "-c", "ls "+image+" "+nvram+" 2>/dev/null || true"); left != "" {
		t.Errorf("left at the source: %s", left)
	}
	for _, host := range []string{"kvm1", "kvm2"} {
		// Those of other tests come and go.
		lab.Await(t, "no pool of ours on "+host, func() bool {
			return !strings.Contains(l.Virsh(t, host, "pool-list", "--all", "--name"), "virtfleet-")
		})
	}
	if left := tf.Actions(t); len(left) > 0 && left[address] != "no-op" {
		t.Errorf("left to do: %v", left)
	}
	config("kvm2", "Always", "")
	tf.Run(t, "apply")
	if err := onHosts(t, l, name, "", "running")(nil); err != nil {
		t.Error(err)
	}
}
