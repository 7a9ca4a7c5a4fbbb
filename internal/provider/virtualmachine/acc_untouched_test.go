package virtualmachine_test

import (
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/hashicorp/terraform-plugin-testing/helper/resource"
	"github.com/hashicorp/terraform-plugin-testing/plancheck"
	"github.com/hashicorp/terraform-plugin-testing/terraform"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/lab"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/acctest"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/virtualmachine"
)

// lastWrites are the times at which anything was written that a host's libvirt keeps, by path. A lock that came and
// went shows as its folder's time.
func lastWrites(t *testing.T, h *lab.Host) map[string]time.Time {
	t.Helper()
	times := map[string]time.Time{}
	for _, root := range []string{
		"/etc/libvirt", "/run/libvirt/qemu", "/var/lib/libvirt/qemu", "/var/lib/libvirt/images",
	} {
		err := filepath.WalkDir(h.Path(root), func(path string, d fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			info, err := d.Info()
			if err != nil {
				return err
			}
			times[path] = info.ModTime()
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return times
}

// everyDataSource looks at a host and two of its VMs in all ways that need no raw commands.
func everyDataSource(host, one, other string) string {
	machines := ""
	for _, name := range []string{"virtfleet_conditions", "virtfleet_guest_info", "virtfleet_migration_candidates"} {
		machines += fmt.Sprintf("data %q \"this\" {\n  for_each = toset([%q, %q])\n  virtual_machine_id = each.key\n}\n",
			name, one, other)
	}
	return machines + fmt.Sprintf(`
data "virtfleet_domain_stats" "this" {
  selector = {}
  interval = "100ms"
  jobs     = true
}
data "virtfleet_virtual_machines" "this" {}
data "virtfleet_host" "this" {
  name    = %[1]q
  include = ["numa_cells", "cpu", "sysinfo", "node_devices", "virtual_machines"]
}
data "virtfleet_hosts" "this" {}
data "virtfleet_evacuation_plan" "this" { host = %[1]q }
`, host)
}

// TestAccVirtualMachine_planWritesNothing: whatever is wrong with a VM, plan, refresh and data sources only look.
// The host is the test's own, so that no other test writes there.
func TestAccVirtualMachine_planWritesNothing(t *testing.T) {
	t.Parallel()
	l := lab.Open(t)
	h := l.StartHost(t)
	tf := acctest.NewCLI(t)
	name := lab.Name(t)
	provider := acctest.Block{Lab: l, Hosts: []acctest.Host{{Of: h}}}.String()
	vm := func(key, strategy string) hcl {
		return idleVM(l, name+"-"+key).with(hcl{"run_strategy": quote(strategy)})
	}
	fine, off, waits := vm("fine", "Always"), vm("off", "Always"), vm("waits", "Always").with(hcl{
		"guest_agent": `{ enabled = true }`, "wait_for": `{ guest_agent = true, timeout = "1s" }`,
	})
	tf.Config(t, provider+fine.named("fine")+off.named("off")+waits.named("waits"))
	tf.Run(t, "apply")

	// What an apply would repair: a VM that is off, one that lost its marks, one that isn't ready; one whose creation
	// was interrupted; one to be made, one to be removed, one to be imported.
	l.Virsh(t, h.Name, "destroy", name+"-off")
	l.Virsh(t, h.Name, "metadata", name+"-off", "urn:virtfleet:1", "--remove", "--config")
	l.Define(t, h.Name, fmt.Sprintf(bare, name+"-hand"))
	tf.Config(t, provider+fine.with(hcl{"memory": `{ size = "96Mi" }`, "update_policy": quote("Restart")}).named("fine")+
		off.named("off")+waits.named("waits")+vm("new", "Always").named("new")+
		hcl{"name": quote(name + "-hand"), "run_strategy": quote("Halted"), "memory": `{ size = "64Mi" }`}.named("hand")+
		fmt.Sprintf("import {\n to = %s.hand\n id = %q\n}\n", virtualmachine.TypeName, name+"-hand"))

	before := lastWrites(t, h)
	want := map[string]string{"fine": "update", "off": "update", "waits": "update", "new": "create", "hand": "no-op"}
	got := map[string]string{}
	for at, action := range tf.Actions(t) {
		got[strings.TrimPrefix(at, virtualmachine.TypeName+".")] = action
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("the plan (-want +got):\n%s", diff)
	}
	tf.Config(t, provider+fine.named("fine")+off.named("off")+waits.named("waits"))
	tf.Run(t, "plan", "-destroy")
	tf.Run(t, "refresh")
	id := func(vm string) string { return strings.TrimSpace(l.Virsh(t, h.Name, "domuuid", name+vm)) }
	tf.Config(t, provider+fine.named("fine")+off.named("off")+waits.named("waits")+
		everyDataSource(h.Name, id("-waits"), id("-off")))
	if out := tf.Run(t, "refresh"); strings.Count(out, ": Read complete") != 11 {
		t.Errorf("the data sources were not all read:\n%s", out)
	}
	if diff := cmp.Diff(before, lastWrites(t, h)); diff != "" {
		t.Errorf("planning wrote to the host (-before +after):\n%s", diff)
	}
	tf.Run(t, "destroy")
	if out := strings.TrimSpace(l.Virsh(t, h.Name, "list", "--all", "--name")); out != name+"-hand" {
		t.Errorf("left on the host: %q", out)
	}
}

// TestAccVirtualMachine_unknownProvider: as long as a URI isn't known, no other host is asked in its place: what exists
// can't be planned, what is new is planned without a look.
func TestAccVirtualMachine_unknownProvider(t *testing.T) {
	t.Parallel()
	l := lab.Open(t)
	tf := acctest.NewCLI(t)
	name := lab.Name(t)
	for _, n := range []string{name, name + "-new"} {
		l.RemoveDomain(t, n)
	}
	config := func(generation string, machines ...hcl) string {
		block := acctest.Block{Lab: l, Hosts: []acctest.Host{{Of: l.Host("kvm1")}, {Of: l.Host("kvm2")}}}.String()
		block = strings.ReplaceAll(block, quote(l.Host("kvm1").URI()), "terraform_data.kvm1.output")
		out := block + fmt.Sprintf("resource \"terraform_data\" \"kvm1\" {\n input = %q\n triggers_replace = %q\n}\n",
			l.Host("kvm1").URI(), generation)
		for i, m := range machines {
			out += m.named([]string{"this", "new"}[i])
		}
		return out
	}
	vm := idleVM(l, name).with(hcl{"host": quote("kvm1"), "run_strategy": quote("Halted")})

	// What is new is planned without a question to a host, and checked when it is made.
	tf.Config(t, config("1", vm))
	if actions := tf.Actions(t); actions[address] != "create" {
		t.Fatalf("the plan: %v", actions)
	}
	tf.Run(t, "apply")
	noChanges(t, tf)

	// What exists can't be read.
	before := l.Virsh(t, "kvm1", "dumpxml", name)
	tf.Config(t, config("2", vm, idleVM(l, name+"-new").with(hcl{"run_strategy": quote("Halted")})))
	expect(t, tf.Fail(t, "plan"), "Error: Unable to read virtual machine",
		"depends on values that are not known before apply: hosts.kvm1.uri", "-target")
	tf.Fail(t, "apply")
	if after := l.Virsh(t, "kvm1", "dumpxml", name); after != before {
		t.Errorf("the VM was changed:\n%s\nwas\n%s", after, before)
	}
	if state, _ := tf.State(t, address); state == nil {
		t.Error("the state lost the VM")
	}

	// As the error says.
	tf.Run(t, "apply", "-target=terraform_data.kvm1")
	tf.Run(t, "apply")
	noChanges(t, tf)
	destroyAndCheck(t, l, tf, name, name+"-new")
}

// trimmedLines are the lines of a definition without their indentation.
func trimmedLines(xml string) []string {
	all := strings.Split(xml, "\n")
	for i, s := range all {
		all[i] = strings.TrimSpace(s)
	}
	return slices.DeleteFunc(all, func(s string) bool { return s == "" })
}

// TestAccVirtualMachine_updateTouchesNothingElse: an update changes what was asked for. MAC and PCI addresses, the
// machine type, elements that the provider doesn't know and other tools' metadata stay, in what runs and for the next
// start.
func TestAccVirtualMachine_updateTouchesNothingElse(t *testing.T) {
	t.Parallel()
	l := lab.Open(t)
	name := lab.Name(t)
	l.Define(t, "kvm1", fmt.Sprintf(`<domain type="qemu" xmlns:qemu="http://libvirt.org/schemas/domain/qemu/1.0">
  <name>%s</name><title>Payroll</title><description>Ask Bob first.</description>
  <metadata>
    <libosinfo:libosinfo xmlns:libosinfo="http://libosinfo.org/xmlns/libvirt/domain/1.0"><libosinfo:os id="x"/>
      </libosinfo:libosinfo>
    <tool:note xmlns:tool="urn:tool" tool:by="bob">keep</tool:note>
  </metadata>
  <memory unit="MiB">128</memory><vcpu current="1">2</vcpu><cputune><shares>512</shares></cputune>
  <os><type arch="x86_64" machine="pc-q35-7.1">hvm</type><kernel>%s</kernel><initrd>%s</initrd>
    <cmdline>%s</cmdline><smbios mode="sysinfo"/></os>
  <sysinfo type="smbios"><system><entry name="serial">4711</entry></system></sysinfo>
  <features><acpi/><apic/></features>
  <cpu mode="custom" match="exact" check="none"><model fallback="allow">qemu64</model></cpu>
  <clock offset="variable" adjustment="3600" basis="utc"/>
  <on_crash>preserve</on_crash><pm><suspend-to-disk enabled="no"/></pm>
  <devices>
    <controller type="virtio-serial" index="0"><address type="pci" bus="0x00" slot="0x0a"/></controller>
    <interface type="user"><mac address="52:54:00:0d:0e:0f"/><model type="virtio"/><rom enabled="no"/>
      <address type="pci" bus="0x00" slot="0x09"/></interface>
    <disk type="file" device="cdrom"><target dev="sdc" bus="sata"/><address type="drive" unit="3"/></disk>
    <channel type="unix"><target type="virtio" name="org.qemu.guest_agent.0"/></channel>
    <memballoon model="virtio"><stats period="7"/><address type="pci" bus="0x00" slot="0x0b"/></memballoon>
  </devices>
  <qemu:commandline><qemu:env name="X" value="y"/></qemu:commandline>
</domain>`, name, l.KernelPath(), l.InitrdPath(), lab.GuestCmdline))
	l.Virsh(t, "kvm1", "start", name)
	config := hcl{
		"name": quote(name), "run_strategy": quote("Manual"), "termination_grace_period": quote("0s"),
		"interfaces": `{ net0 = { user = true } }`,
	}
	definitions := func() (all []string) {
		t.Helper()
		for _, which := range []string{"--inactive", "--security-info"} {
			all = append(all, l.Virsh(t, "kvm1", "dumpxml", which, name))
		}
		return all
	}
	var before []string
	// only expects that nothing was taken out of either definition and that what is new has one of the parts.
	only := func(parts ...string) resource.TestCheckFunc {
		return func(*terraform.State) error {
			for i, now := range definitions() {
				was := trimmedLines(before[i])
				for _, s := range trimmedLines(now) {
					if at := slices.Index(was, s); at >= 0 {
						was = slices.Delete(was, at, at+1)
					} else if !slices.ContainsFunc(parts, func(p string) bool { return strings.Contains(s, p) }) {
						return fmt.Errorf("the update wrote %s:\n%s", s, now)
					}
				}
				was = slices.DeleteFunc(was, func(s string) bool {
					return slices.ContainsFunc(parts, func(p string) bool { return strings.Contains(s, p) })
				})
				if len(was) > 0 {
					return fmt.Errorf("the update took away %q:\n%s", was, now)
				}
			}
			before = definitions()
			return nil
		}
	}
	// The balloon and the agent's channel change by themselves while the guest boots.
	ours := []string{"virtfleet:", "currentMemory", "org.qemu.guest_agent.0"}
	story(t, l, []string{name}, resource.TestStep{
		Config: acctest.OneHost(l) + config.String(), ResourceName: address, ImportState: true, ImportStateId: name,
		ImportStatePersist: true,
	}, resource.TestStep{
		// Our marks come next to the others'.
		PreConfig:        func() { before = definitions() },
		Config:           acctest.OneHost(l) + config.with(hcl{"labels": `{ app = "pay" }`}).String(),
		ConfigPlanChecks: changes(plancheck.ResourceActionUpdate), Check: only(ours...),
	}, resource.TestStep{
		// A processor more.
		Config:           acctest.OneHost(l) + config.with(hcl{"cpu": `{ vcpus = 2 }`}).String(),
		ConfigPlanChecks: changes(plancheck.ResourceActionUpdate),
		Check:            only(append(ours, "<vcpu", "</vcpus>")...),
	}, resource.TestStep{
		// A device more: it brings its own lines, and the port that it is plugged into.
		Config: acctest.OneHost(l) + config.with(hcl{
			"cpu":        `{ vcpus = 2 }`,
			"interfaces": `{ net0 = { user = true }, more = { user = true, mac = "52:54:00:0d:0e:10" } }`,
		}).String(),
		ConfigPlanChecks: changes(plancheck.ResourceActionUpdate),
		Check: only(append(
			ours,
			"<interface type='user'>",
			"52:54:00:0d:0e:10",
			"<model type='virtio'/>",
			"ua-net-more",
			"<address type='pci'",
			"</interface>",
			"<backend",
			"<target dev",
			"pcie-root-port",
			"<target chassis",
			"</controller>",
			"<alias name='pci.",
			"<controller type='pci'",
		)...),
	}, resource.TestStep{
		// And less, which takes a guest that lets go of it.
		PreConfig:        func() { l.AwaitAgent(t, "kvm1", name) },
		Config:           acctest.OneHost(l) + config.with(hcl{"cpu": `{ vcpus = 2 }`}).String(),
		ConfigPlanChecks: changes(plancheck.ResourceActionUpdate),
		Check: resource.ComposeTestCheckFunc(
			only(append(ours, "<interface type='user'>", "52:54:00:0d:0e:10", "<model type='virtio'/>", "ua-net-more",
				"<address type='pci'", "</interface>", "<backend", "<target dev")...),
			look(t, l, "kvm1", name, "52:54:00:0d:0e:0f", "pc-q35-7.1", "urn:tool", ">keep<", "libosinfo:os", "Ask Bob first.",
				"slot='0x09'", "slot='0x0a'", "slot='0x0b'", "<stats period='7'/>", "qemu:env", "4711"),
		),
	})
}
