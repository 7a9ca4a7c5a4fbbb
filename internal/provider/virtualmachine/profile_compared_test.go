package virtualmachine

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/domain"
)

var update = flag.Bool("update", false, "write what is made to the golden files")

// windowsFile is a definition of a VM for Windows 11.
func windowsFile(name string) string { return filepath.Join("testdata", "windows-11", name+".xml") }

// TestProfile_windowsDefinition: what the profile windows-11 makes of a VM, as libvirt gets it.
func TestProfile_windowsDefinition(t *testing.T) {
	t.Parallel()
	spec := modelOf(t, windowsVM).withProfile().toFleet(nil).Spec
	definition, err := domain.New(spec, "6a9ae2dc-22f3-4d0c-a8d8-0a9b2f1dca10")
	if err != nil {
		t.Fatal(err)
	}
	xml, err := definition.XML()
	if err != nil {
		t.Fatal(err)
	}
	if *update {
		if err := os.WriteFile(windowsFile("profile"), []byte(xml), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(windowsFile("profile"))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), xml); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// windowsVM is the VM of virt-install.xml, which virt-install 4.1.0 with osinfo-db 20221130 hands to libvirt 9.0 for
//
//	virt-install --virt-type kvm --name win11 --osinfo win11 --memory 4096 --vcpus 2 --network network=default \
//	  --graphics vnc --disk /images/root.qcow2,size=1 --cdrom /iso/windows.iso --print-xml 2
var windowsVM = vmWithProfile("windows-11").with(in{
	"name": "win11", "type": "kvm", "memory": in{"size": "4Gi"}, "cpu": in{"vcpus": 2},
	"devices": in{"graphics": in{"type": "vnc"}},
})

// windowsFacts are what the attributes say of a definition for Windows 11.
func windowsFacts(t *testing.T, name string) map[string]string {
	t.Helper()
	xml, err := os.ReadFile(windowsFile(name))
	if err != nil {
		t.Fatal(err)
	}
	definition, err := domain.Parse(string(xml))
	if err != nil {
		t.Fatal(err)
	}
	spec := definition.Spec()
	facts := map[string]string{}
	maps.Copy(facts, spec.Values)
	for at, value := range map[string]any{
		"machine_type": &spec.Machine, "cpu.mode": spec.CPU.Mode, "firmware.type": spec.Firmware.Type,
		"firmware.secure_boot": spec.Firmware.SecureBoot, "guest_agent.enabled": spec.GuestAgent,
		"serial_console.enabled": spec.SerialConsole,
	} {
		switch value := value.(type) {
		case *string:
			if value != nil {
				facts[at] = *value
			}
		case *bool:
			if value != nil {
				facts[at] = fmt.Sprint(*value)
			}
		}
	}
	for _, disk := range spec.Disks {
		facts["disks.*.bus, "+disk.Device] = disk.Bus
	}
	for _, nic := range spec.Interfaces {
		facts["interfaces.*.model"] = nic.Model
	}
	return facts
}

// TestProfile_comparedWithVirtInstall: the guide shows in which attributes the profile and virt-install differ, and no
// others.
func TestProfile_comparedWithVirtInstall(t *testing.T) {
	t.Parallel()
	theirs, ours := windowsFacts(t, "virt-install"), windowsFacts(t, "profile")
	both := maps.Clone(theirs)
	maps.Copy(both, ours)
	var table strings.Builder
	table.WriteString("| attribute | virt-install | `windows-11` |\n| --- | --- | --- |\n")
	for _, at := range slices.Sorted(maps.Keys(both)) {
		if theirs[at] != ours[at] {
			fmt.Fprintf(&table, "| `%s` | %s | %s |\n", at, theirs[at], ours[at])
		}
	}
	guide, err := os.ReadFile("../../../templates/guides/profiles.md")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(guide), table.String()) {
		t.Errorf("the guide lacks this table:\n%s", table.String())
	}
}
