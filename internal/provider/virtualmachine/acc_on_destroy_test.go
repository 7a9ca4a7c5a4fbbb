package virtualmachine_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/lab"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/acctest"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/virtualmachine"
)

// TestAccOnDestroy: the plan of a destroy, and that of a replacement, names the data that go with a VM: disks, UEFI
// variables, the TPM's state, saved memory, snapshots and checkpoints. They are gone afterwards, except for what
// on_destroy keeps, and for a disk that a user's snapshot is based on. What is to be kept and libvirt can't keep stops
// a destroy before anything happens.
func TestAccOnDestroy(t *testing.T) {
	t.Parallel()
	l := lab.Open(t)
	const host = "kvm2"
	prefix := lab.Name(t) + "-"
	for _, key := range []string{"firm", "snap", "check", "over"} {
		l.RemoveDomain(t, prefix+key)
	}
	tf := acctest.NewCLI(t)
	disk := func(key string) hcl {
		return hcl{"disks": fmt.Sprintf(`{ root = { file = %q } }`, l.Image(t, host, prefix+key+".qcow2", "qcow2", 1<<20))}
	}
	vm := func(key string, more hcl) hcl { return tinyVM(prefix + key).with(hcl{"host": quote(host)}).with(more) }
	// Once: an apply doesn't resume it from its saved memory.
	firm := vm("firm", hcl{
		"firmware": `{ type = "efi" }`, "devices": `{ tpm = {} }`, "run_strategy": quote("Once"),
	})
	snap, check := vm("snap", disk("snap")), vm("check", disk("check"))
	config := func(vms ...string) { tf.Config(t, acctest.On(l, host)+strings.Join(vms, "")) }
	pool := "/var/lib/libvirt/" + prefix + "pool"
	over := fmt.Sprintf("resource \"virtfleet_storage_pool\" \"this\" {\n  name = %q\n  type = \"dir\"\n"+
		"  target = { path = %q }\n}\n", prefix+"pool", pool) + vm("over", hcl{
		"run_strategy": quote("Halted"), "disks": `{ root = { pool = virtfleet_storage_pool.this.name, size = "1Mi" } }`,
	}).named("over")
	files := func() string {
		// It fails if what it is about to look into is another VM's and goes: directories of other tests do.
		return l.Run(t, host, "sh", "-c", `find /var/lib/libvirt/qemu /var/lib/libvirt/swtpm -path "*$1*" -o `+
			`-name tpm2-00.permall 2>/dev/null || true`, "find", prefix)
	}
	keep := func(part string) hcl { return hcl{"on_destroy": fmt.Sprintf(`{ %s = "keep" }`, part)} }
	config(firm.with(keep("managed_save")).named("firm"), snap.with(keep("snapshots")).named("snap"),
		check.with(keep("checkpoints")).named("check"), over)
	tf.Run(t, "apply")
	uuid := uuidOf(t, l, host, prefix+"firm")
	tf.Run(t, "plan", "-destroy", "-out=destroy.plan")
	l.Virsh(t, host, "managedsave", prefix+"firm")
	l.Virsh(t, host, "snapshot-create-as", prefix+"snap", "before-upgrade")
	l.Virsh(t, host, "checkpoint-create-as", prefix+"check", "weekly")
	l.Virsh(t, host, "checkpoint-create-as", prefix+"check", "daily")
	for _, command := range [][]string{{"apply", "destroy.plan"}, {"plan", "-destroy"}} {
		out := tf.Fail(t, command...)
		expect(t, out, "It has a managed save image", `on_destroy.managed_save is "keep"; nothing was removed`)
		expect(t, out, `It has snapshots "before-upgrade"`, `on_destroy.snapshots is "keep"; nothing was removed`,
			"virsh snapshot-delete")
		expect(t, out, "It has checkpoints ", `"daily"`, `on_destroy.checkpoints is "keep"; nothing was removed`,
			"virsh checkpoint-delete")
		for key, want := range map[string]string{
			"firm": "Managed save:   yes", "snap": "State:          running", "check": "State:          running",
		} {
			if info := l.Virsh(t, host, "dominfo", prefix+key); !strings.Contains(info, want) {
				t.Errorf("after terraform %v: want %s of %s", command, want, info)
			}
		}
	}
	for what, have := range map[string]string{
		"snapshot":   l.Virsh(t, host, "snapshot-list", prefix+"snap", "--name"),
		"checkpoint": l.Virsh(t, host, "checkpoint-list", prefix+"check", "--name"),
	} {
		if strings.TrimSpace(have) == "" {
			t.Errorf("the refused destroys have removed the %s", what)
		}
	}

	// Without on_destroy everything goes.
	changed := firm.with(hcl{"cpu": `{ vcpus = 2 }`})
	config(changed.named("firm"), snap.named("snap"), check.named("check"), over)
	tf.Run(t, "apply")
	noChanges(t, tf)
	// What was changed since the memory was saved isn't what a start continues with.
	config(changed.with(hcl{"run_strategy": quote("Always")}).named("firm"), snap.named("snap"), check.named("check"),
		over)
	expect(t, tf.Run(t, "plan"), "Virtual machine resumes from saved memory", "- cpu.vcpus", "managedsave-remove")
	config(changed.named("firm"), snap.named("snap"), check.named("check"), over)
	const deleted = "Data is deleted with virtual machine "
	l.Virsh(t, host, "snapshot-create-as", prefix+"over", "since", "--disk-only", "--diskspec",
		"vda,file="+pool+"/since.qcow2")
	losses := []string{
		deleted + prefix + "firm", "- the UEFI variables (NVRAM)", "- the state of the TPM",
		"- the guest's saved memory (managed save image)",
	}
	tf.Run(t, "taint", virtualmachine.TypeName+".firm")
	for _, args := range [][]string{{"plan"}, {"plan", "-refresh=false"}} {
		out := tf.Run(t, args...)
		expect(t, out, append([]string{"is tainted, so must be replaced"}, losses...)...)
		if strings.Contains(out, deleted+prefix+"snap") {
			t.Errorf("only one VM is replaced: %s", out)
		}
	}
	tf.Run(t, "untaint", virtualmachine.TypeName+".firm")
	out := tf.Run(t, "plan", "-destroy")
	expect(t, out, losses...)
	expect(t, out, deleted+prefix+"over", pool+"/since.qcow2 now, which stays")
	expect(t, out, deleted+prefix+"snap", `- the metadata of its snapshots "before-upgrade"`,
		"Not deleted with the VM", "- disks.root: ")
	expect(t, out, deleted+prefix+"check", `- the metadata of its checkpoints "`, `"daily"`)
	for _, part := range []string{
		"nvram/" + prefix + "firm_VARS.fd", "save/" + prefix + "firm.save",
		"snapshot/" + prefix + "snap", "checkpoint/" + prefix + "check",
	} {
		if found := files(); !strings.Contains(found, part) {
			t.Errorf("%s isn't there before: %s", part, found)
		}
	}
	l.Run(t, host, "test", "-d", "/var/lib/libvirt/swtpm/"+uuid)
	destroyAndCheck(t, l, tf, prefix+"firm", prefix+"snap", prefix+"check")
	if left := files(); strings.Contains(left, prefix) || strings.Contains(left, uuid) {
		t.Errorf("what was the VMs' is still there: %s", left)
	}
	l.Run(t, host, "qemu-img", "check", "-q", pool+"/since.qcow2") // And so is what it is based on.
	l.Run(t, host, "rm", "-r", pool)

	// What is kept is named as such, and stays. What isn't there needn't be kept.
	config(firm.with(hcl{"on_destroy": `{
		nvram = "keep", tpm_state = "keep", managed_save = "keep", snapshots = "keep", checkpoints = "keep"
	}`}).named("firm"))
	tf.Run(t, "apply")
	uuid = uuidOf(t, l, host, prefix+"firm")
	out = tf.Run(t, "plan", "-destroy")
	expect(t, out, "Data is kept after destroying virtual machine "+prefix+"firm", "- the UEFI variables (NVRAM)",
		"- the state of the TPM")
	if strings.Contains(out, deleted) {
		t.Errorf("nothing is deleted: %s", out)
	}
	noChanges(t, tf)
	destroyAndCheck(t, l, tf, prefix+"firm")
	nvram := "/var/lib/libvirt/qemu/nvram/" + prefix + "firm_VARS.fd"
	l.Run(t, host, "test", "-s", nvram)
	l.Run(t, host, "test", "-d", "/var/lib/libvirt/swtpm/"+uuid+"/tpm2")
	l.Run(t, host, "rm", "-r", "/var/lib/libvirt/swtpm/"+uuid)

	// A new VM of that name starts with what was kept, instead of a copy of the firmware's template. The mark is in the
	// space for an event log, where the firmware writes nothing.
	const mark = "kept by the VM before"
	l.Run(t, host, "sh", "-c", fmt.Sprintf("printf %%s %q | dd of=%s bs=1 seek=262144 conv=notrunc status=none", mark,
		nvram))
	tf.Run(t, "apply")
	if again := uuidOf(t, l, host, prefix+"firm"); again == uuid {
		t.Errorf("the VM is still the one with UUID %s", uuid)
	}
	l.Run(t, host, "grep", "-q", mark, nvram)
	noChanges(t, tf)

	// Under a new name it keeps them, too. While libvirt can't write the definition's new file, the guest that went down
	// for the change runs again under its old name.
	l.RemoveDomain(t, prefix+"renamed")
	underNewName := firm.with(hcl{"name": quote(prefix + "renamed"), "update_policy": quote("Restart")})
	renamed := underNewName.named("firm")
	config(renamed)
	l.Run(t, host, "mkdir", "/etc/libvirt/qemu/"+prefix+"renamed.xml")
	tf.Fail(t, "apply")
	if state := l.Virsh(t, host, "domstate", prefix+"firm"); strings.TrimSpace(state) != "running" {
		t.Errorf("after a failed rename the VM is %s", state)
	}
	l.Run(t, host, "rmdir", "/etc/libvirt/qemu/"+prefix+"renamed.xml")
	tf.Run(t, "apply")
	if live := l.Virsh(t, host, "dumpxml", prefix+"renamed"); !strings.Contains(live, nvram) {
		t.Errorf("the renamed VM doesn't run with %s: %s", nvram, live)
	}
	l.Run(t, host, "grep", "-q", mark, nvram)
	noChanges(t, tf)

	// What another VM has isn't given to a new one, nor deleted.
	second := vm("firm", hcl{"firmware": `{ type = "efi" }`}).named("second")
	config(renamed, second)
	expect(t, tf.Fail(t, "plan"), "it has VM \""+prefix+"renamed\"", nvram, "firmware.nvram")
	config(renamed)
	const sharing = "<domain type='qemu'><name>%s</name><memory>65536</memory><os firmware='efi'>" +
		"<type arch='x86_64' machine='q35'>hvm</type><nvram>%s</nvram></os>" +
		"<features><acpi/></features></domain>"
	l.Define(t, host, fmt.Sprintf(sharing, prefix+"sharing", nvram))

	// A change doesn't give a VM the file of another one, and two new VMs don't get one file.
	apart := strings.ReplaceAll(nvram, "firm_", "apart_")
	l.Define(t, host, fmt.Sprintf(sharing, prefix+"apart", apart))
	efi := func(file string) hcl { return hcl{"firmware": fmt.Sprintf(`{ type = "efi", nvram = %q }`, file)} }
	config(underNewName.with(efi(apart)).named("firm"))
	expect(t, tf.Fail(t, "plan"), "it has VM \""+prefix+"apart\"", "in "+apart+`. VM "`+prefix+`renamed" would use`)
	config(renamed, vm("one", efi("/var/tmp/vars.fd")).named("one"), vm("two", efi("/var//tmp/vars.fd")).named("two"))
	out = tf.Fail(t, "plan") // Which of the two is refused is chance.
	expect(t, out, "File with UEFI variables belongs to another virtual machine", "/var/tmp/vars.fd")
	expect(t, out, `"`+prefix+`one"`)
	expect(t, out, `"`+prefix+`two"`)
	config(renamed)
	out = tf.Run(t, "plan", "-destroy")
	expect(t, out, "because of another VM:", "NVRAM) in "+nvram+", which VM \""+prefix+"sharing\" has, too")
	if strings.Contains(out, "- the UEFI variables (NVRAM)\n") {
		t.Errorf("the UEFI variables aren't deleted: %s", out)
	}
	destroyAndCheck(t, l, tf, prefix+"firm", prefix+"renamed")
	l.Run(t, host, "grep", "-q", mark, nvram)
}
