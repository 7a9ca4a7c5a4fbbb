package virtualmachine_test

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/lab"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/acctest"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/virtualmachine"
)

// pciDevices are the addresses of the PCI devices that a host lists. No VM with one is started: the lab has no IOMMU.
func pciDevices(t *testing.T, l *lab.Lab, host string) []string {
	t.Helper()
	var all []string
	for _, name := range strings.Fields(l.Virsh(t, host, "nodedev-list", "--cap", "pci")) {
		part := strings.Split(name, "_")
		all = append(all, fmt.Sprintf("%s:%s:%s.%s", part[1], part[2], part[3], part[4]))
	}
	if len(all) < 4 {
		t.Fatalf("the lab has too few PCI devices: %q", all)
	}
	return all
}

// pciSource is the element by which a definition names a PCI device of its host.
func pciSource(pci string) string {
	part := strings.FieldsFunc(pci, func(r rune) bool { return r == ':' || r == '.' })
	return fmt.Sprintf("<address domain='0x%s' bus='0x%s' slot='0x%s' function='0x%s'/>",
		part[0], part[1], part[2], part[3])
}

// deviceClasses shows VMs that ask for a device by class, where the VM holder has the first device of the first host.
func deviceClasses(t *testing.T, l *lab.Lab, one, two *lab.Host, holder string) {
	t.Helper()
	pci := pciDevices(t, l, one.Name)
	const missing = "ffff:00:00.0"
	tf := acctest.NewCLI(t)
	classes := func(class string, devices ...string) string {
		return fmt.Sprintf("devices = { %s = [\"pci:%s\"] }", class, strings.Join(devices, `", "pci:`))
	}
	config := func(onOne, onTwo string, parts ...string) {
		tf.Config(t, acctest.Block{
			Lab: l, Hosts: []acctest.Host{{Of: one, Settings: onOne}, {Of: two, Settings: onTwo}},
		}.String()+strings.Join(parts, "\n"))
	}
	name := lab.Name(t) + "-class"
	l.RemoveDomain(t, name)
	starts := tinyVM(name).with(hcl{"devices": `{ host_devices = { gpu = { class = "gpu" } } }`})
	rests := starts.with(hcl{"run_strategy": quote("Halted")})
	here, there := hcl{"host": quote(one.Name)}, hcl{"host": quote(two.Name)}

	// No host has one that is free: the plan names who has them.
	config(classes("gpu", pci[0], missing), classes("nic", pci[0]), starts.named("vm"))
	expect(t, tf.Fail(t, "plan"), "No host can take the VM", "because of devices.host_devices.gpu.class",
		`host "`+one.Name+`": it has no free device of class "gpu": pci device `+pci[0]+` is given to VM "`+holder+
			`", pci device `+missing+" isn't there", `host "`+two.Name+`": it has no devices of class "gpu"`)
	// The lab's hosts have no IOMMU: none of them can start a VM with a PCI device, by class, by address or of a network.
	config(classes("gpu", pci[0]), classes("gpu", pci[1]), starts.named("vm"))
	expect(t, tf.Fail(t, "plan"), `host "`+two.Name+`": it has no free device of class "gpu": pci device `+pci[1]+
		" can't be given to a VM, because its kernel uses no IOMMU", "VT-d", "intel_iommu=on")
	config("", "", starts.with(hcl{
		"devices": `{ host_devices = { gpu = { type = "pci", address = ` + quote(pci[1]) + ` } } }`,
	}).with(here).named("vm"))
	expect(t, tf.Fail(t, "plan"), "because of devices.host_devices.gpu.address", `host "`+one.Name+`": it can't give pci `+
		"device "+pci[1]+" to a VM, because its kernel uses no IOMMU", "intel_iommu=on")
	pool := filepath.Join(t.TempDir(), "pool.xml")
	if err := os.WriteFile(pool, []byte("<network><name>sriov</name><forward mode='hostdev' managed='yes'>"+
		"<pf dev='eth0'/></forward></network>"), 0o600); err != nil {
		t.Fatal(err)
	}
	l.Virsh(t, one.Name, "net-define", pool) // It can't be started: the lab has no card with SR-IOV.
	config("", "", tinyVM(name).with(hcl{"interfaces": `{ fast = { network = "sriov" } }`}).with(here).named("vm"))
	expect(t, tf.Fail(t, "plan"), "because of interfaces.fast.network",
		`its network "sriov" can't give a PCI device to a VM, because its kernel uses no IOMMU`, "intel_iommu=on")

	// The VM gets the one that is free, and keeps it.
	both := classes("gpu", pci[0], pci[1])
	config(both, classes("gpu", pci[2], pci[3]), rests.with(here).named("vm"))
	expect(t, tf.Run(t, "plan"), `+ address = (known after apply)`, `+ class = "gpu"`)
	tf.Run(t, "apply")
	if err := look(t, l, one.Name, name, pciSource(pci[1]), `class="gpu"`)(nil); err != nil {
		t.Error(err)
	}
	noChanges(t, tf)
	config(classes("gpu", pci[2], pci[1]), classes("gpu", pci[2], pci[3]), rests.with(here).named("vm"))
	noChanges(t, tf)
	// When it leaves the class, the VM gets another one.
	config(classes("gpu", pci[2]), classes("gpu", pci[2], pci[3]), rests.with(here).named("vm"))
	expect(t, tf.Run(t, "plan"), `"`+pci[1]+`" -> "`+pci[2]+`"`)
	tf.Run(t, "apply")
	if err := look(t, l, one.Name, name, pciSource(pci[2]))(nil); err != nil {
		t.Error(err)
	}
	noChanges(t, tf)

	// On another host it gets one of that host's.
	candidates := fmt.Sprintf(`
data "virtfleet_migration_candidates" "vm" {
  virtual_machine_id = virtfleet_virtual_machine.vm.id
}
output "way" {
  value = join("; ", [
    for b in data.virtfleet_migration_candidates.vm.hosts[%q].blockers : "${b.reason} ${b.message}"
  ])
}
`, two.Name)
	config(classes("gpu", pci[2]), classes("gpu", missing), rests.with(here).named("vm"), candidates)
	tf.Run(t, "apply")
	expect(t, tf.Run(t, "output", "way"), `HostResourcesNotAvailable host \"`+two.Name+
		`\" has no free device of class \"gpu\": pci device `+missing+" isn't there")
	config(classes("gpu", pci[2]), classes("gpu", missing), rests.with(there).named("vm"))
	expect(t, tf.Fail(t, "plan"), "Virtual machine can't be moved: HostResourcesNotAvailable")
	config(classes("gpu", pci[2]), classes("gpu", pci[3]), rests.with(there).named("vm"))
	expect(t, tf.Run(t, "plan"), `"`+pci[2]+`" -> "`+pci[3]+`"`)
	tf.Run(t, "apply")
	if err := look(t, l, two.Name, name, pciSource(pci[3]), `class="gpu"`)(nil); err != nil {
		t.Error(err)
	}
	noChanges(t, tf)

	importedWithClass(t, tf, name, pciSource(pci[3]), func() string { return l.Virsh(t, two.Name, "dumpxml", name) })

	// A device that is declared by its address has to be on the host, too. This one is defined by hand.
	l.Define(t, two.Name, `<domain type="qemu"><name>`+name+`-fixed</name><memory unit="MiB">64</memory>
  <os><type arch="x86_64" machine="q35">hvm</type></os>
  <devices><hostdev mode="subsystem" type="pci" managed="yes">
    <source>`+pciSource(missing)+`</source></hostdev></devices>
</domain>`)
	id := strings.TrimSpace(l.Virsh(t, two.Name, "domuuid", name+"-fixed"))
	config("", classes("gpu", pci[3]), rests.with(there).named("vm"),
		strings.Replace(strings.ReplaceAll(candidates, two.Name, one.Name), "virtfleet_virtual_machine.vm.id", quote(id), 1))
	tf.Run(t, "apply")
	expect(t, tf.Run(t, "output", "way"), `HostResourcesNotAvailable host \"`+one.Name+`\" has no pci device `+missing)
	destroyAndCheck(t, l, tf, name)
}

// importedWithClass shows the import of a VM that has a device of a class of its host, as the other directory declares
// it. The configuration that Terraform writes has the device by its address, because the class is the configuration's
// to say. Declared by class it keeps the device.
func importedWithClass(t *testing.T, declared *acctest.CLI, name, device string, dumpxml func() string) {
	t.Helper()
	tf := acctest.NewCLI(t)
	main, err := os.ReadFile(filepath.Join(declared.Dir, "main.tf"))
	if err != nil {
		t.Fatal(err)
	}
	block, resources, _ := strings.Cut(string(main), "resource ")
	_, block, _ = strings.Cut(block, "provider ")
	block = "provider " + block + fmt.Sprintf("import {\n  to = %s.vm\n  id = %q\n}\n", virtualmachine.TypeName, name)
	tf.Config(t, block)
	generated := filepath.Join(tf.Dir, "generated.tf")
	for at, action := range tf.Actions(t, "-generate-config-out="+generated) {
		if action != "no-op" {
			t.Errorf("%s: %s", at, action)
		}
	}
	config, err := os.ReadFile(generated)
	if err != nil {
		t.Fatal(err)
	}
	byAddress := regexp.MustCompile(`(?s)host_devices = \{\s+gpu = \{\s+address\s+= "[0-9a-f:.]+"\s+class\s+= null` +
		`.*type\s+= "pci"`)
	if !byAddress.Match(config) {
		t.Errorf("Terraform writes\n%s", config)
	}
	if err := os.Remove(generated); err != nil {
		t.Fatal(err)
	}
	tf.Config(t, block+"resource "+resources)
	plan := tf.Run(t, "plan")
	expect(t, plan, `+ class = "gpu"`, "1 to import, 0 to add, 1 to change")
	if strings.Contains(plan, "-> (known after apply)") || strings.Contains(plan, "~ address") {
		t.Errorf("the device is planned to change: %s", plan)
	}
	tf.Run(t, "apply")
	if err := contains(dumpxml(), device, `class="gpu"`); err != nil {
		t.Error(err)
	}
	noChanges(t, tf)
}
