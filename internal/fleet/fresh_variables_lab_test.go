package fleet

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/domain"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/inventory"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/placement"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/records"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/lab"
)

// A change of firmware resets the variables once, whoever starts the VM: what its guest writes to them afterwards is
// kept at the next start, as after a drain.
func TestLab_variablesAreResetOnce(t *testing.T) {
	t.Parallel()

	const host = "kvm1"

	l := lab.Open(t)
	f := labFleet(t, l, t.Name(), nil)
	d := light(t, l, "fresh", nil)
	d.Metadata.Host, d.UpdatePolicy = host, placement.PolicyStage
	d.Spec.Firmware.Type, d.Spec.Firmware.SecureBoot = new("efi"), new(false)
	vm := create(t, f, l, d)

	d.Spec.Firmware.SecureBoot = new(true)

	// They are still to be reset if the same update is refused a device, and not with a firmware that has none.
	refused := d
	refused.OwnDisks = map[string]domain.OwnDisk{"own": {Pool: "default", Bytes: 1 << 20}}
	refused.Spec.Disks = maps.Clone(d.Spec.Disks)
	refused.Spec.Disks["own"] = domain.Disk{
		Source: domain.DiskSource{File: "/to/be/made"}, Values: domain.Values{"queues": "100000"},
	}

	vm, err := f.Update(t.Context(), vm.UUID, lastOf(vm), refused)
	if err == nil || vm == nil || !vm.Metadata.FreshNVRAM {
		t.Fatalf("a device was to be refused, and the change of firmware to stay: %+v, %v", vm, err)
	}

	bios := d
	bios.Spec.Firmware = domain.Firmware{Type: new("bios")}

	if vm, err = f.Update(t.Context(), vm.UUID, lastOf(vm), bios); err != nil || vm.Metadata.FreshNVRAM {
		t.Errorf("without variables, these are still to be reset: %v", err)
	}

	vm, err = f.Update(t.Context(), vm.UUID, lastOf(vm), d)
	if err != nil || !vm.RestartRequired() || !vm.Metadata.FreshNVRAM {
		t.Fatalf("the change isn't staged: %v", err)
	}

	variables := "/var/lib/libvirt/qemu/nvram/" + vm.Name + "_VARS.fd"
	restart := func(whileOff string) {
		t.Helper()
		l.Virsh(t, host, "destroy", vm.UUID)
		l.Run(t, host, "sh", "-c", whileOff)

		if vm, err = f.FindNow(t.Context(), vm.UUID, inventory.LastKnown{}); err != nil {
			t.Fatal(err)
		}

		if err = admitAndStart(f)(t.Context(), vm); err != nil {
			t.Fatal(err)
		}

		if vm, err = f.FindNow(t.Context(), vm.UUID, inventory.LastKnown{}); err != nil {
			t.Fatal(err)
		}
	}
	has := func(text string) bool {
		t.Helper()

		return l.Run(t, host, "sh", "-c", fmt.Sprintf("grep -qa '%s' %s && echo yes || true", text, variables)) != ""
	}

	restart("")

	if !has("Microsoft Corporation") {
		t.Error("the VM has secure boot without the keys")
	}

	if vm.RestartRequired() || vm.Metadata.FreshNVRAM {
		t.Error("after the start, the next one is still to reset the variables")
	}

	restart(fmt.Sprintf("printf 'of the guest' | dd of=%s bs=1 seek=500000 conv=notrunc status=none", variables))

	if !has("of the guest") {
		t.Error("the variables that the guest had written are gone")
	}

	// If the mark can't be removed right after the start, the same update removes it later: the VM has started.
	version := func(from, to string, where ...string) {
		t.Helper()

		const ours = "urn:virtfleet:1"

		xml := l.Virsh(t, host, "metadata", vm.UUID, ours, "--config")
		xml = strings.Replace(xml, fmt.Sprintf("version=%q", from), fmt.Sprintf("version=%q", to), 1)
		l.Virsh(t, host, append([]string{"metadata", vm.UUID, ours, "--key", "virtfleet", "--set", xml}, where...)...)
	}

	l.Virsh(t, host, "destroy", vm.UUID)
	f.ForgetAll()

	if vm, err = f.FindNow(t.Context(), vm.UUID, inventory.LastKnown{}); err != nil {
		t.Fatal(err)
	}

	m := vm.Metadata
	m.FreshNVRAM = true

	if _, err := records.WriteMetadata(t.Context(), vm, m); err != nil {
		t.Fatal(err)
	}

	listen(f, &onLog{Message: "starting VM", Do: func() {
		version("1", "99", "--config") // No run of this version may write it.
		listen(f, &onLog{Message: "marks that the start has made void were not removed", Do: func() {
			version("99", "1", "--config", "--live")
		}})
	}})

	vm, err = f.Update(t.Context(), vm.UUID, lastOf(vm), d)
	if err != nil || !vm.Running() || vm.Metadata.FreshNVRAM || has("of the guest") {
		t.Errorf("started although its mark stayed: %+v, %v", vm, err)
	}
}

// A new VM starts with the file of UEFI variables that its configuration names, as from a backup, and a creation that
// fails leaves the file as it was. If a guest ran meanwhile, its VM stays, whatever disks it has.
func TestLab_newVMKeepsTheVariablesItNames(t *testing.T) {
	t.Parallel()

	const host, template = "kvm1", "/usr/share/OVMF/OVMF_VARS_4M.fd"

	l := lab.Open(t)
	f := labFleet(t, l, t.Name(), nil)
	d := light(t, l, "restored", nil)
	file := directory(t, l, host) + "/restored_VARS.fd"
	d.Metadata.Host, d.Metadata.RunStrategy, d.Spec.Firmware.Type = host, "Always", new("efi")
	d.Spec.Values = domain.Values{"firmware.nvram": file}

	l.RemoveDomain(t, d.Spec.Name)
	l.Run(t, host, "sh", "-c", fmt.Sprintf(
		"cp %s %s && printf 'from a backup' | dd of=%[2]s bs=1 seek=500000 conv=notrunc status=none", template, file))

	keeps := func(when string) {
		t.Helper()

		if l.Run(t, host, "sh", "-c", fmt.Sprintf("grep -qa 'from a backup' %s && echo yes || true", file)) == "" {
			t.Errorf("%s the file's variables are lost", when)
		}
	}

	interrupted := func(meanwhile func()) error {
		t.Helper()

		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()

		listen(f, &onLog{Message: "starting VM", Do: func() {
			meanwhile()
			cancel()
		}})

		vm, err := f.Create(ctx, d)
		if vm != nil || !errors.Is(err, context.Canceled) {
			t.Errorf("interrupted: %+v, %v", vm, err)
		}

		return err
	}

	_ = interrupted(func() {})

	if all := l.Virsh(t, host, "list", "--all", "--name"); strings.Contains(all, d.Spec.Name) {
		t.Errorf("an interrupted creation leaves %s", all)
	}

	keeps("after an interrupted creation")

	tells(t, "with a guest that ran", interrupted(func() {
		l.Virsh(t, host, "start", d.Spec.Name)
		l.Virsh(t, host, "destroy", d.Spec.Name)
	}), context.Canceled, "its definition and its disks are kept")

	left := strings.TrimSpace(l.Virsh(t, host, "domuuid", d.Spec.Name))

	if vm := create(t, f, l, d); vm.UUID != left {
		t.Errorf("%s is created in addition to %s", vm.UUID, left)
	}

	keeps("after its start")
}

// A VM keeps its variables under a new name on a host whose files only libvirt sees. While libvirt doesn't see them
// either, it keeps its name, and a guest that runs isn't shut down for it.
func TestLab_renamedVMKeepsItsVariables(t *testing.T) {
	t.Parallel()

	const dir = "/var/lib/libvirt/qemu/nvram"

	l := lab.Open(t)
	host := l.StartHost(t)
	f := ownFleet(t, t.Name(), host)
	d := light(t, l, "named", nil)
	d.Metadata.Host, d.Metadata.RunStrategy, d.Spec.Firmware.Type = host.Name, "Halted", new("efi")
	vm := create(t, f, l, d)
	name, file := vm.Name, dir+"/"+vm.Name+"_VARS.fd"
	d.Spec.Name += "-new"

	l.Run(t, host.Name, "mkdir", "-p", dir)
	l.Run(t, host.Name, "cp", "/usr/share/OVMF/OVMF_VARS_4M.fd", file)
	l.Run(t, host.Name, "mv", dir, dir+"-away")
	l.Run(t, host.Name, "touch", dir) // A directory that libvirt can't read: it isn't one.

	_, err := f.Update(t.Context(), vm.UUID, lastOf(vm), d)
	tells(t, "renaming it", err, inventory.ErrBusy, name, host.Name, file, "is unknown")

	if remedy := errRemedy(err); !strings.Contains(remedy, "firmware.nvram") {
		t.Errorf("the remedy is %q", remedy)
	}

	if is := strings.TrimSpace(l.Virsh(t, host.Name, "domname", vm.UUID)); is != name {
		t.Errorf("it is %s now", is)
	}

	back := func() {
		t.Helper()
		l.Run(t, host.Name, "rm", dir)
		l.Run(t, host.Name, "mv", dir+"-away", dir)
	}

	back()
	l.Virsh(t, host.Name, "start", vm.UUID)

	run := l.Virsh(t, host.Name, "domid", vm.UUID)

	l.Run(t, host.Name, "mv", dir, dir+"-away")
	l.Run(t, host.Name, "touch", dir)

	running := d
	running.Metadata.RunStrategy, running.UpdatePolicy = "Manual", placement.PolicyRestart
	running.Metadata.TerminationGracePeriod = new(time.Second)

	_, err = f.Update(t.Context(), vm.UUID, lastOf(vm), running)
	tells(t, "renaming it while it runs", err, inventory.ErrBusy, name, host.Name, file, "is unknown")

	if is := l.Virsh(t, host.Name, "domid", vm.UUID); is != run {
		t.Errorf("it runs as domain %s; want %s", is, run)
	}

	l.Virsh(t, host.Name, "destroy", vm.UUID)
	back()

	vm, err = f.Update(t.Context(), vm.UUID, lastOf(vm), d)
	if err != nil || vm.Name != d.Spec.Name {
		t.Fatalf("renaming it: %+v, %v", vm, err)
	}

	if xml := l.Virsh(t, host.Name, "dumpxml", "--inactive", vm.UUID); !strings.Contains(xml, ">"+file+"</nvram>") {
		t.Errorf("its definition doesn't name %s:\n%s", file, xml)
	}

	if _, err := f.Delete(t.Context(), vm.UUID, lastOf(vm), 0); err != nil {
		t.Error(err)
	}

	// The remedy works in the same update.
	d = light(t, l, "remedied", nil)
	d.Metadata.Host, d.Metadata.RunStrategy, d.Spec.Firmware.Type = host.Name, "Halted", new("efi")
	vm = create(t, f, l, d)
	named := directory(t, l, host.Name) + "/named_VARS.fd"

	l.Run(t, host.Name, "cp", "/usr/share/OVMF/OVMF_VARS_4M.fd", named)
	l.Virsh(t, host.Name, "start", vm.UUID)
	l.Run(t, host.Name, "mv", dir, dir+"-away")
	l.Run(t, host.Name, "touch", dir)

	d.Spec.Name += "-new"
	d.Spec.Values = domain.Values{"firmware.nvram": named}
	d.Metadata.RunStrategy, d.UpdatePolicy = "Manual", placement.PolicyRestart
	d.Metadata.TerminationGracePeriod = new(time.Second)

	vm, err = f.Update(t.Context(), vm.UUID, lastOf(vm), d)
	if err != nil || vm.Name != d.Spec.Name || !vm.Running() {
		t.Fatalf("renaming it with its file: %+v, %v", vm, err)
	}

	if xml := l.Virsh(t, host.Name, "dumpxml", vm.UUID); !strings.Contains(xml, ">"+named+"</nvram>") {
		t.Errorf("it doesn't have %s:\n%s", named, xml)
	}

	l.Virsh(t, host.Name, "destroy", vm.UUID)
	back()

	if _, err := f.Delete(t.Context(), vm.UUID, lastOf(vm), 0); err != nil {
		t.Error(err)
	}
}
