package virtualmachine_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/lab"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/acctest"
)

// outputInGuest is what a command in the guest printed.
func outputInGuest(t *testing.T, l *lab.Lab, host, name, script string) string {
	t.Helper()
	ask := func(answer any, execute string, arguments map[string]any) {
		t.Helper()
		question, err := json.Marshal(map[string]any{"execute": execute, "arguments": arguments})
		if err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal([]byte(l.Virsh(t, host, "qemu-agent-command", name, string(question))), answer); err != nil {
			t.Fatal(err)
		}
	}
	l.AwaitAgent(t, host, name) // Who hasn't heard from it yet gives it no more than five seconds.
	var started struct{ Return struct{ PID int } }
	ask(&started, "guest-exec", map[string]any{"path": "/bin/sh", "arg": []string{"-c", script}, "capture-output": true})
	var status struct {
		Return struct {
			Exited bool
			Out    []byte `json:"out-data"`
		}
	}
	lab.Await(t, "the guest's answer", func() bool {
		ask(&status, "guest-exec-status", map[string]any{"pid": started.Return.PID})
		return status.Return.Exited
	})
	return strings.TrimSpace(string(status.Return.Out))
}

// TestAccVirtualMachine_moveWithDisks: a disk that only the source has is copied where that is wanted. Of a run that
// was killed while it copied, the VM continues where it was; what was made on the target is known to be unfinished,
// blocks nothing, and the next apply begins anew. The volume's own resource then has it on the target. While the source
// keeps its file, that resource doesn't grow or delete the old file without a word.
func TestAccVirtualMachine_moveWithDisks(t *testing.T) {
	t.Parallel()
	l := lab.Open(t)
	tf := acctest.NewCLI(t)
	name := lab.Name(t)
	l.RemoveDomain(t, name)
	image := l.Image(t, "kvm1", name+".raw", "raw", 32<<20)
	l.Run(t, "kvm1", "dd", "if=/dev/urandom", "of="+image, "bs=1M", "count=32", "conv=notrunc")
	t.Cleanup(func() {
		if err := os.Remove(l.Host("kvm2").Path(image)); !errors.Is(err, os.ErrNotExist) {
			t.Error(err)
		}
	})
	sum := func(host string) string { return l.Run(t, host, "sh", "-c", "sha256sum <"+image) }
	before := sum("kvm1")
	const ofDisk = "virtfleet_volume.root"
	vm := idleVM(l, name).with(hcl{"disks": fmt.Sprintf(`{ root = { volume = %s.id, cache = "none" } }`, ofDisk)})
	size := "32Mi"
	config := func(host, options string) {
		tf.Config(t, providerBlock(l, options)+vm.with(hcl{"host": quote(host)}).String()+fmt.Sprintf(
			"resource \"virtfleet_volume\" \"root\" {\n  name = %q\n  pool = \"default\"\n  size = %q\n}\n", name+".raw", size))
	}
	config("kvm1", "")
	tf.Run(t, "import", ofDisk, "default/"+name+".raw")
	tf.Run(t, "apply")
	config("kvm2", "")
	if out := tf.Fail(t, "plan"); !inOrder("DisksNotLiveMigratable", image, "copy_storage").MatchString(out) {
		t.Errorf("where no disk is to be copied: %s", out)
	}
	config("kvm2", `migration_options = { copy_storage = "full", bandwidth = "1Mi" }`)
	apply := tf.Start(t, "apply")
	lab.Await(t, "the disk to be copied", func() bool {
		out, err := l.TryVirsh(t, "kvm1", "domjobinfo", name)
		return err == nil && strings.Contains(out, "File processed")
	})
	if err := apply.Kill(); err != nil {
		t.Fatal(err)
	}
	if out, err := apply.Wait(); err == nil {
		t.Errorf("killed, it succeeds: %s", out)
	}
	awaitAlone(t, l, name)
	lab.Await(t, "the source to notice", func() bool {
		out, err := l.TryVirsh(t, "kvm1", "domjobinfo", name)
		return err == nil && strings.Contains(out, "None")
	})
	if err := contains(l.Virsh(t, "kvm1", "metadata", name, "urn:virtfleet:1"), "<copies>", image); err != nil {
		t.Error(err)
	}
	config("kvm1", "") // Its user gives the move up: the plan says what is left.
	expect(t, tf.Run(t, "plan"), "left_volumes", "kvm2: "+image, "Plan: 0 to add, 1 to change, 0 to destroy.")
	config("kvm2", `migration_options = { copy_storage = "full", keep_source_disks = false }`)
	expect(t, tf.Run(t, "plan", "-out=planned"), `current_host = "kvm1" -> "kvm2"`,
		"Plan: 0 to add, 1 to change, 0 to destroy.")
	tf.Run(t, "apply", "planned")
	if err := onHosts(t, l, name, "", "running")(nil); err != nil {
		t.Error(err)
	}
	if there := sum("kvm2"); there != before {
		t.Errorf("the disk had %s, on kvm2 it has %s", before, there)
	}
	if _, err := os.Stat(l.Host("kvm1").Path(image)); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("%s is left on kvm1: %v", image, err)
	}
	records := l.Virsh(t, "kvm2", "metadata", name, "urn:virtfleet:1")
	if err := contains(records, `method="BlockMigration"`, "disk-total="); err != nil {
		t.Error(err)
	}
	if strings.Contains(records, "<copies") {
		t.Errorf("the VM's own disk is still called unfinished: %s", records)
	}
	noChanges(t, tf)
	tf.Run(t, "apply", "-refresh-only")
	expect(t, tf.Run(t, "state", "show", ofDisk), `current_host = "kvm2"`)

	const keep = `migration_options = { copy_storage = "full" }`
	config("kvm1", keep)
	tf.Run(t, "apply")
	noChanges(t, tf)
	uses, remedy := fmt.Sprintf(`On host "kvm1", VM %q uses a volume of this name`, name),
		fmt.Sprintf(`"virsh vol-delete --pool default %s.raw" on host "kvm2"`, name)
	l.Virsh(t, "kvm1", "vol-info", "--pool", "default", name+".raw") // The move has made it known to libvirt.
	expect(t, tf.Fail(t, "plan", "-destroy"), "Unable to delete volume", uses, remedy)
	size = "48Mi"
	config("kvm1", keep)
	expect(t, tf.Run(t, "plan"), "Unable to check the growth of volume", uses, remedy)
	l.Virsh(t, "kvm2", "vol-delete", "--pool", "default", name+".raw")
	tf.Run(t, "apply")
	expect(t, tf.Run(t, "state", "show", ofDisk), `current_host = "kvm1"`)
	if info := l.Virsh(t, "kvm1", "domblkinfo", name, image); !strings.Contains(info, fmt.Sprint(48<<20)) {
		t.Errorf("the guest's disk: %s", info)
	}
	noChanges(t, tf)
	destroyAndCheck(t, l, tf, name)
}
