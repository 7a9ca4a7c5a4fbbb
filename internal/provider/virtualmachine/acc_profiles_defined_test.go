package virtualmachine_test

import (
	"fmt"
	"os"
	"testing"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/domain"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/lab"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/acctest"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/virtualmachine"
)

// mainChoices are what a profile chooses, as a definition has it.
func mainChoices(t *testing.T, xml string) map[string]string {
	t.Helper()
	definition, err := domain.Parse(xml)
	if err != nil {
		t.Fatal(err)
	}
	spec := definition.Spec()
	choices := map[string]string{"firmware": *spec.Firmware.Type, "agent": fmt.Sprint(*spec.GuestAgent)}
	for _, at := range []string{
		"platform.clock.offset", "platform.clock.rtc_tickpolicy", "platform.clock.pit_tickpolicy", "platform.clock.hpet",
		"devices.tpm.model", "devices.rng.model", "devices.video.model",
	} {
		choices[at] = spec.Values[at]
	}
	for _, disk := range spec.Disks {
		choices["bus of a "+disk.Device] = disk.Bus
	}
	for _, nic := range spec.Interfaces {
		choices["interface"] = nic.Model
	}
	for _, input := range spec.Inputs {
		if input["bus"] == "usb" {
			choices["input"] = input["type"]
		}
	}
	return choices
}

// TestAccProfile_defined: a host defines VMs of the profiles that the lab can't boot, as virt-install defines one for
// Windows except where the profile says so, and each is imported as it is.
func TestAccProfile_defined(t *testing.T) {
	t.Parallel()
	l := lab.Open(t)
	prefix := lab.Name(t)
	const host = "kvm1"
	theirs, err := os.ReadFile("testdata/windows-11/virt-install.xml")
	if err != nil {
		t.Fatal(err)
	}
	windows := mainChoices(t, string(theirs))
	// An RNG is a default of all new VMs. Which screen is the best for UEFI, virt-install knows; the profiles leave it to
	// libvirt.
	const ownVideo = "devices.video.model"
	windows["devices.rng.model"] = "virtio"
	withDrivers := map[string]string{"bus of a disk": "virtio", "interface": "virtio", "agent": "true"}
	linux := map[string]string{
		"firmware": "efi", "agent": "true", "devices.rng.model": "virtio", ownVideo: "virtio", "bus of a disk": "virtio",
		"bus of a cdrom": "sata", "interface": "virtio", "platform.clock.offset": "utc",
	}
	vms, ids, config := map[string]string{}, map[string]string{}, ""
	for _, profile := range []string{
		"windows-server", "windows-server-virtio", "windows-11-virtio", "windows-10-virtio", "linux-efi",
	} {
		name := prefix + "-" + profile
		l.RemoveDomain(t, name)
		vms[profile], ids[virtualmachine.TypeName+"."+profile] = name, name
		config += tinyVM(name).with(hcl{
			"host": quote(host), "profile": quote(profile), "run_strategy": quote("Halted"),
			"interfaces": `{ lan = { user = true } }`,
			"disks":      `{ system = { file = "/srv/system.qcow2" }, medium = { device = "cdrom" } }`,
		}).named(profile)
	}
	tf := acctest.NewCLI(t)
	tf.Config(t, acctest.OneHost(l)+config)
	tf.Run(t, "apply")
	noChanges(t, tf)
	for profile, name := range vms {
		ours, want := mainChoices(t, l.Virsh(t, host, "dumpxml", "--inactive", name)), map[string]string{}
		for at, choice := range windows {
			want[at] = choice
		}
		delete(want, ownVideo)
		switch profile {
		case "windows-server":
			want["devices.tpm.model"] = ""
		case "windows-server-virtio", "windows-10-virtio":
			want["devices.tpm.model"] = ""
			fallthrough
		case "windows-11-virtio":
			for at, choice := range withDrivers {
				want[at] = choice
			}
		case "linux-efi":
			want = linux
		}
		if profile == "windows-10-virtio" {
			want["firmware"] = "bios"
		}
		for at, choice := range want {
			if ours[at] != choice {
				t.Errorf("%s: %s is %q, want %q", profile, at, ours[at], choice)
			}
		}
	}
	acctest.ImportGenerated(t, acctest.OneHost(l), ids)
	noChanges(t, tf)
	var names []string
	for _, name := range vms {
		names = append(names, name)
	}
	destroyAndCheck(t, l, tf, names...)
}
