package virtualmachine_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/hashicorp/terraform-plugin-testing/helper/resource"
	"github.com/hashicorp/terraform-plugin-testing/plancheck"
	"github.com/hashicorp/terraform-plugin-testing/statecheck"
	"github.com/hashicorp/terraform-plugin-testing/terraform"

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

// TestAccVirtualMachine_moveWithDisks: a disk that only the source has is copied where that is wanted, and never over
// another file; the guest reads on the target what it wrote before.
func TestAccVirtualMachine_moveWithDisks(t *testing.T) {
	t.Parallel()
	l := lab.Open(t)
	name := lab.Name(t)
	image := l.Image(t, "kvm1", name+".qcow2", "qcow2", 16<<20)
	remove := func(host string) {
		if err := os.Remove(l.Host(host).Path(image)); err != nil && !errors.Is(err, os.ErrNotExist) {
			t.Error(err)
		}
	}
	t.Cleanup(func() { remove("kvm2") })
	there := func(host string, want bool) error {
		_, err := os.Stat(l.Host(host).Path(image))
		if is := err == nil; is != want {
			return fmt.Errorf("%s on %s: %v, want %v", image, host, is, want)
		}
		return nil
	}
	vm := guest(l, name).with(talking).with(hcl{
		"disks": fmt.Sprintf(`{ root = { volume = %q, cache = "none" } }`, image),
	})
	config := func(host, options string) string {
		return providerBlock(l, "") + vm.with(hcl{"host": quote(host), "migration_options": options}).String()
	}
	written := ""
	same := func(host string) resource.TestCheckFunc {
		return func(*terraform.State) error {
			if read := outputInGuest(t, l, host, name, checksum); read != written || read == "" {
				return fmt.Errorf("the guest wrote %s and reads %s", written, read)
			}
			return nil
		}
	}
	moves := changes(plancheck.ResourceActionUpdate)
	story(t, l, []string{name}, resource.TestStep{
		Config: config("kvm1", ""), ConfigPlanChecks: changes(plancheck.ResourceActionCreate),
		Check: func(*terraform.State) error {
			written = outputInGuest(t, l, "kvm1", name, scribble+checksum)
			return nil
		},
	}, resource.TestStep{
		Config: config("kvm2", ""), ExpectError: inOrder("DisksNotLiveMigratable", image, "copy_storage"),
	}, resource.TestStep{
		Config: config("kvm2", `{ copy_storage = "full", keep_source_disks = false }`), ConfigPlanChecks: moves,
		ConfigStateChecks: []statecheck.StateCheck{know("current_host", exactly("kvm2"))},
		Check: resource.ComposeTestCheckFunc(onHosts(t, l, name, "", "running"), same("kvm2"), func(*terraform.State) error {
			return errors.Join(there("kvm1", false), there("kvm2", true), contains(l.Virsh(t, "kvm2", "metadata", name,
				"urn:virtfleet:1"), `method="BlockMigration"`, "disk-total="))
		}),
	}, resource.TestStep{
		PreConfig: func() {
			l.Run(t, "kvm1", "qemu-img", "create", "-q", "-f", "qcow2", image, "16M")
			l.RefreshPool(t, "kvm1")
		},
		Config:      config("kvm1", `{ copy_storage = "full" }`),
		ExpectError: inOrder("DiskPathTaken", image, "never overwritten"),
	}, resource.TestStep{
		PreConfig: func() {
			remove("kvm1")
			l.RefreshPool(t, "kvm1")
		},
		Config: config("kvm1", `{ copy_storage = "full", transport = "ssh_relay" }`), ConfigPlanChecks: moves,
		Check: resource.ComposeTestCheckFunc(onHosts(t, l, name, "running", ""), same("kvm1"), func(*terraform.State) error {
			return errors.Join(there("kvm1", true), there("kvm2", true))
		}),
	})
}

// TestAccVirtualMachine_copyOntoAFullTarget: a target whose disk is full before all is copied has nothing of it; the
// VM goes on where it was with what it wrote, the next plan is the move, and the next apply does it.
func TestAccVirtualMachine_copyOntoAFullTarget(t *testing.T) {
	t.Parallel()
	l := lab.Open(t)
	name := lab.Name(t)
	dir := "/var/lib/libvirt/images/" + name
	image, base := dir+"/top.qcow2", dir+"/base.raw"
	for _, host := range []string{"kvm1", "kvm2"} {
		l.Run(t, host, "mkdir", dir)
		atEnd(t, l, host, "rm", "-r", dir)
	}
	// How much of its base is copied along can't be seen before.
	l.Run(t, "kvm1", "dd", "if=/dev/urandom", "of="+base, "bs=1M", "count=16", "status=none")
	l.Run(t, "kvm1", "qemu-img", "create", "-q", "-f", "qcow2", "-b", base, "-F", "raw", image)
	unmount := []string{"-c", "! mountpoint -q " + dir + " || umount " + dir}
	atEnd(t, l, "kvm2", "sh", unmount...)
	vm := guest(l, name).with(talking).with(hcl{
		"disks": fmt.Sprintf(`{ root = { file = %q, format = "qcow2", cache = "none" } }`, image),
	})
	config := func(host string) string {
		return providerBlock(l, "") +
			vm.with(hcl{"host": quote(host), "migration_options": `{ copy_storage = "full" }`}).String()
	}
	written := ""
	intact := func(host string) {
		t.Helper()
		if read := outputInGuest(t, l, host, name, checksum); read != written || read == "" {
			t.Errorf("the guest wrote %s and reads %s", written, read)
		}
	}
	story(t, l, []string{name}, resource.TestStep{
		Config: config("kvm1"), ConfigPlanChecks: changes(plancheck.ResourceActionCreate),
		Check: func(*terraform.State) error {
			written = outputInGuest(t, l, "kvm1", name, scribble+checksum)
			return nil
		},
	}, resource.TestStep{
		PreConfig: func() { l.Run(t, "kvm2", "mount", "-t", "tmpfs", "-o", "size=6M", "none", dir) },
		Config:    config("kvm2"), ExpectError: inOrder("Unable to move virtual machine", `is on host "kvm1" (Running)`),
	}, resource.TestStep{
		PreConfig: func() {
			if err := onHosts(t, l, name, "running", "")(nil); err != nil {
				t.Error(err)
			}
			intact("kvm1")
			if left := l.Run(t, "kvm2", "ls", "-A", dir); left != "" {
				t.Errorf("left on the target: %s", left)
			}
			l.Run(t, "kvm2", "sh", unmount...)
		},
		Config: config("kvm2"), ConfigPlanChecks: changes(plancheck.ResourceActionUpdate),
		ConfigStateChecks: []statecheck.StateCheck{know("current_host", exactly("kvm2"))},
		Check: resource.ComposeTestCheckFunc(onHosts(t, l, name, "", "running"), func(*terraform.State) error {
			intact("kvm2")
			return nil
		}),
	})
}

// TestAccVirtualMachine_copyKilled: of a run that was killed while it copied disks, the VM goes on where it was;
// what was made on the target is known to be unfinished, blocks nothing, and the next apply begins anew.
func TestAccVirtualMachine_copyKilled(t *testing.T) {
	t.Parallel()
	l := lab.Open(t)
	tf := acctest.NewCLI(t)
	name := lab.Name(t)
	l.RemoveDomain(t, name)
	image := l.Image(t, "kvm1", name+".raw", "raw", 32<<20)
	l.Run(t, "kvm1", "dd", "if=/dev/urandom", "of="+image, "bs=1M", "count=32", "conv=notrunc")
	t.Cleanup(func() {
		if err := os.Remove(l.Host("kvm2").Path(image)); err != nil {
			t.Error(err)
		}
	})
	sum := func(host string) string { return l.Run(t, host, "sh", "-c", "sha256sum <"+image) }
	before := sum("kvm1")
	vm := idleVM(l, name).with(hcl{"disks": fmt.Sprintf(`{ root = { volume = %q, cache = "none" } }`, image)})
	config := func(host, options string) {
		tf.Config(t, providerBlock(l, options)+vm.with(hcl{"host": quote(host)}).String())
	}
	config("kvm1", "")
	tf.Run(t, "apply")
	t.Cleanup(func() { tf.Run(t, "destroy") })
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
	if err := contains(l.Virsh(t, "kvm1", "metadata", name, "urn:virtfleet:1"), image); err != nil {
		t.Error(err)
	}
	config("kvm2", `migration_options = { copy_storage = "full" }`)
	expect(t, tf.Run(t, "plan", "-out=planned"), `current_host = "kvm1" -> "kvm2"`,
		"Plan: 0 to add, 1 to change, 0 to destroy.")
	tf.Run(t, "apply", "planned")
	if err := onHosts(t, l, name, "", "running")(nil); err != nil {
		t.Error(err)
	}
	if here, there := sum("kvm1"), sum("kvm2"); here != before || there != before {
		t.Errorf("the disk had %s, on kvm1 it has %s and on kvm2 %s", before, here, there)
	}
	if left := tf.Actions(t); len(left) > 0 && left[address] != "no-op" {
		t.Errorf("left to do: %v", left)
	}
	if strings.Contains(l.Virsh(t, "kvm2", "metadata", name, "urn:virtfleet:1"), image) {
		t.Error("the VM's own disk is still called unfinished")
	}
}
