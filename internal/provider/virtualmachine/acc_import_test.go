package virtualmachine_test

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/hashicorp/terraform-plugin-testing/helper/resource"
	"github.com/hashicorp/terraform-plugin-testing/plancheck"
	"github.com/hashicorp/terraform-plugin-testing/statecheck"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/lab"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/acctest"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/provider/virtualmachine"
)

// bare is the least that libvirt takes for a VM.
const bare = `<domain type="qemu"><name>%s</name><memory unit="MiB">64</memory><os>
  <type arch="x86_64">hvm</type></os></domain>`

// TestAccVirtualMachine_nameTaken: a name that exists already isn't taken over and isn't made twice. The error says how
// to manage the VM that has it.
func TestAccVirtualMachine_nameTaken(t *testing.T) {
	t.Parallel()
	l := lab.Open(t)
	name := lab.Name(t)
	l.Define(t, "kvm2", fmt.Sprintf(bare, name))
	id := uuidOf(t, l, "kvm2", name)
	config := acctest.Config(l) + idleVM(l, name).with(hcl{"run_strategy": quote("Halted")}).String()
	existing := acctest.Config(l) + hcl{"name": quote(name), "run_strategy": quote("Halted")}.String()
	story(t, l, []string{name}, resource.TestStep{
		Config: config,
		ExpectError: inOrder("Name already taken", "A VM named", name, `exists already on host "kvm2", with UUID`, id,
			"terraform import", id, "terraform destroy -refresh=false"),
	}, resource.TestStep{
		// As it says: by UUID.
		Config: existing, ResourceName: address, ImportState: true, ImportStateId: id, ImportStatePersist: true,
	}, resource.TestStep{
		Config: existing, ConfigPlanChecks: changes(plancheck.ResourceActionNoop),
		ConfigStateChecks: []statecheck.StateCheck{know("id", exactly(id)), know("current_host", exactly("kvm2"))},
	}, resource.TestStep{
		// By name it is the same one.
		Config: existing, ResourceName: address, ImportState: true, ImportStateId: name, ImportStateVerify: true,
	}, resource.TestStep{
		Config: existing, ResourceName: address, ImportState: true, ImportStateId: name + "-absent",
		ExpectError: inOrder("Unable to import virtual machine", "No host has it", name+"-absent"),
	}, resource.TestStep{
		// Another VM of that name, on the other host: the name says nothing any more.
		PreConfig: func() { l.Define(t, "kvm1", fmt.Sprintf(bare, name)) },
		Config:    existing, ResourceName: address, ImportState: true, ImportStateId: name,
		ExpectError: inOrder("Unable to import virtual machine", "Several VMs have this name:", "on kvm", ";", "on kvm",
			"Name the VM by its UUID."),
	}, resource.TestStep{
		// The one in the state is known by its UUID, so that no other VM matters.
		Config: existing, ConfigPlanChecks: changes(plancheck.ResourceActionNoop),
		ConfigStateChecks: []statecheck.StateCheck{know("id", exactly(id))},
	}, resource.TestStep{
		PreConfig: func() { l.Virsh(t, "kvm1", "undefine", name) },
		Config:    existing, ConfigPlanChecks: changes(plancheck.ResourceActionNoop),
	})
}

// handmade are definitions as people and other tools make them. BASE is the beginning of a domain; each is started if
// it isn't said to be off.
var handmade = map[string]struct {
	xml       string
	transient bool
	off       bool
	// after is done when it is there.
	after func(t *testing.T, l *lab.Lab, name string)
	// strategy is the run strategy that describes what is observed.
	strategy string
}{
	"bare": {xml: bare, off: true, strategy: "Halted"},
	"i440fx": {strategy: "Always", xml: `<domain type="qemu"><name>%s</name><title>An old one</title>
  <memory unit="KiB">98304</memory><vcpu placement="static" current="1">2</vcpu>
  <os><type arch="x86_64" machine="pc-i440fx-7.2">hvm</type><boot dev="cdrom"/><boot dev="hd"/>
    <bootmenu enable="no"/></os>
  <features><acpi/><apic/><pae/></features><clock offset="localtime"/>
  <on_poweroff>destroy</on_poweroff><on_reboot>restart</on_reboot><on_crash>restart</on_crash>
  <devices>
    <disk type="file" device="cdrom"><target dev="hdc" bus="ide"/><readonly/></disk>
    <controller type="usb" model="piix3-uhci"/>
    <interface type="network"><source network="default"/><model type="rtl8139"/></interface>
    <serial type="pty"/><console type="pty"><target type="serial"/></console>
    <input type="tablet" bus="usb"/><graphics type="vnc" port="-1" autoport="yes"/><video><model type="cirrus"/></video>
  </devices></domain>`, after: func(t *testing.T, l *lab.Lab, name string) {
		t.Helper()
		l.Virsh(t, "kvm1", "autostart", name)
	}},
	"q35": {strategy: "Manual", xml: `<domain type="qemu"><name>%s</name><memory unit="MiB">96</memory>
  <cpu mode="custom" match="exact" check="none"><model fallback="allow">qemu64</model>
    <topology sockets="1" cores="2" threads="1"/></cpu><vcpu>2</vcpu>
  <os><type arch="x86_64" machine="q35">hvm</type></os><features><acpi/></features>
  <devices>
    <disk type="file" device="disk"><driver name="qemu" type="qcow2" discard="unmap"/><source file="IMAGE"/>
      <target dev="vda" bus="virtio"/><boot order="1"/></disk>
    <disk type="file" device="cdrom"><target dev="sda" bus="sata"/></disk>
    <interface type="bridge"><source bridge="br-lab"/><model type="virtio"/><link state="down"/>
      <mtu size="1400"/></interface>
    <channel type="unix"><target type="virtio" name="org.qemu.guest_agent.0"/></channel>
    <rng model="virtio"><backend model="random">/dev/urandom</backend></rng>
  </devices></domain>`},
	"many": {
		off:      true,
		strategy: "Halted",
		xml: `<domain type="qemu"><name>%s</name><memory unit="MiB">128</memory>
		  <currentMemory unit="KB">100000</currentMemory>
  <metadata><a:b xmlns:a="urn:a" c="d"><a:e/></a:b></metadata>
  <os><type arch="x86_64" machine="q35">hvm</type></os>
  <devices>
    <controller type="scsi" model="virtio-scsi"/>
    <disk type="file"><driver name="qemu" type="raw" cache="writeback"/><source file="/srv/a.img">
      <encryption format="luks" engine="qemu"><secret type="passphrase"
      uuid="5a1bb6ff-3f0b-4c5e-9d3a-000000000001"/></encryption></source>
      <target dev="sda" bus="scsi"/></disk>
    <disk type="block"><driver name="qemu" type="raw"/><source dev="/dev/null">
      <encryption format="luks"><secret type="passphrase" usage="/by/usage"/></encryption></source>
      <target dev="sdb" bus="scsi"/>
      <serial>S-2</serial></disk>
    <disk type="network"><driver name="qemu" type="raw"/><source protocol="nbd" name="x" tls="yes">
      <host name="10.0.0.9" port="10810"/></source>
      <target dev="vda" bus="virtio"/></disk>
    <disk type="network" device="cdrom"><driver name="qemu" type="raw"/>
      <source protocol="https" name="i.iso" query="a=b"><host name="example.net" port="443"/><ssl verify="no"/>
      <cookies><cookie name="a">b</cookie></cookies><timeout seconds="6"/></source>
      <target dev="sdd" bus="scsi"/><readonly/></disk>
    <disk type="network"><driver name="qemu"/><source protocol="rbd" name="pool/i"><host name="ceph"/></source>
      <target dev="vdb" bus="virtio"/></disk>
    <disk type="volume"><driver name="qemu"/><source pool="default" volume="x.qcow2"/>
      <target dev="vdc" bus="virtio"/></disk>
    <disk type="dir"><driver name="qemu" type="fat"/><source dir="/tmp"/><target dev="vdd" bus="virtio"/>
      <readonly/></disk>
    <disk type="file" device="floppy"><target dev="fda"/></disk>
    <disk type="block" device="lun"><source dev="/dev/zero"/><target dev="sdc" bus="scsi"/></disk>
    <interface type="user"><model type="e1000e"/></interface>
    <interface type="direct"><source dev="lo" mode="bridge"/></interface>
    <interface type="ethernet"><target dev="mytap7"/></interface>
    <interface type="network"><source network="gone" portgroup="p"/><model type="virtio"/><boot order="2"/></interface>
    <interface type="mcast"><source address="230.0.0.1" port="5558"/></interface>
    <hostdev mode="subsystem" type="pci"><source><address domain="0" bus="0x5" slot="0" function="0"/></source>
      </hostdev>
    <filesystem type="mount"><source dir="/srv"/><target dir="share"/></filesystem>
    <watchdog model="i6300esb" action="reset"/><panic model="isa"/>
    <tpm model="tpm-crb"><backend type="emulator" version="2.0"/></tpm>
    <sound model="ich9"/>
  </devices></domain>`,
	},
	"efi": {off: true, strategy: "Halted", xml: `<domain type="qemu"><name>%s</name><memory unit="GiB">1</memory>
  <maxMemory slots="4" unit="GiB">2</maxMemory>
  <cpu><numa><cell id="0" cpus="0-1" memory="1048576"/></numa></cpu><vcpu>2</vcpu>
  <os firmware="efi"><type arch="x86_64" machine="q35">hvm</type></os>
  <features><acpi/></features>
  <devices><interface type="network"><mac address="52:54:00:EF:1E:F1"/>
    <source network="default"/></interface></devices></domain>`},
	"snapshots": {off: true, strategy: "Halted", xml: `<domain type="qemu"><name>%s</name><memory unit="MiB">64</memory>
  <os><type arch="x86_64">hvm</type></os><devices>
    <disk type="file"><driver name="qemu" type="qcow2"/><source file="IMAGE"/><target dev="vda" bus="virtio"/></disk>
  </devices></domain>`, after: func(t *testing.T, l *lab.Lab, name string) {
		t.Helper()
		l.Virsh(t, "kvm1", "snapshot-create-as", name, "first")
	}},
	// What runs without a step of its guest: firmware that libvirt has chosen and its variables, a TPM that swtpm
	// emulates, macvtap, interfaces that share an address, and a disk whose image is an overlay since it runs.
	"hosted": {
		strategy: "Manual",
		xml: `<domain type="qemu"><name>%s</name><memory unit="MiB">128</memory>
  <os firmware="efi"><type arch="x86_64" machine="q35">hvm</type></os><features><acpi/></features><devices>
    <disk type="file"><driver name="qemu" type="qcow2"/><source file="OVERLAID"/><target dev="vda" bus="virtio"/></disk>
    <interface type="direct"><source dev="eth0" mode="bridge"/><model type="virtio"/></interface>
    <interface type="bridge"><mac address="52:54:00:EF:1E:F2"/><source bridge="br-lab"/><model type="virtio"/>
      </interface>
    <interface type="user"><mac address="52:54:00:EF:1E:F2"/><model type="virtio"/></interface>
    <tpm model="tpm-crb"><backend type="emulator" version="2.0"/></tpm>
  </devices></domain>`,
		after: func(t *testing.T, l *lab.Lab, name string) {
			t.Helper()
			l.Virsh(t, "kvm1", "suspend", name)
			l.Virsh(t, "kvm1", "snapshot-create-as", name, "outside", "--disk-only", "--no-metadata")
		},
	},
	// Firmware that is named file by file, with variables in the form that libvirt has since 8.5.
	"variables": {strategy: "Manual", xml: `<domain type="qemu"><name>%[1]s</name><memory unit="MiB">128</memory>
  <os><type arch="x86_64" machine="q35">hvm</type>
    <loader readonly="yes" type="pflash">/usr/share/OVMF/OVMF_CODE_4M.fd</loader>
    <nvram template="/usr/share/OVMF/OVMF_VARS_4M.fd" type="file">
      <source file="/var/lib/libvirt/qemu/nvram/%[1]s-own.fd"/></nvram></os>
  <features><acpi/></features></domain>`, after: func(t *testing.T, l *lab.Lab, name string) {
		t.Helper()
		l.Virsh(t, "kvm1", "suspend", name)
	}},
	// A directory of the host that virtiofsd serves from shared memory, and the interface of a team that stays with the
	// VM when it moves, while the other one, a device of a host, has been unplugged.
	"shares": {strategy: "Manual", xml: `<domain type="qemu"><name>%s</name><memory unit="MiB">64</memory>
  <memoryBacking><source type="memfd"/><access mode="shared"/></memoryBacking>
  <os><type arch="x86_64" machine="q35">hvm</type></os><features><acpi/></features><devices>
    <filesystem type="mount" accessmode="passthrough"><driver type="virtiofs" queue="512"/>
      <binary path="/usr/lib/qemu/virtiofsd" xattr="on"><cache mode="always"/></binary><source dir="/srv"/>
      <target dir="share"/></filesystem>
    <interface type="bridge"><source bridge="br-lab"/><model type="virtio"/><teaming type="persistent"/>
      <alias name="ua-slow"/></interface>
  </devices></domain>`},
	"transient": {
		transient: true,
		strategy:  "Manual",
		xml: `<domain type="qemu"><name>%s</name><memory unit="MiB">64</memory>
  <os><type arch="x86_64" machine="pc">hvm</type></os>
  <devices><interface type="user"><alias name="ua-mine"/></interface></devices></domain>`,
	},
	"paused": {strategy: "Manual", xml: bare, after: func(t *testing.T, l *lab.Lab, name string) {
		t.Helper()
		l.Virsh(t, "kvm1", "autostart", name)
		l.Virsh(t, "kvm1", "suspend", name)
	}},
}

// TestAccVirtualMachine_importAnything: whatever VM there is, importing it with the configuration that Terraform
// writes for it changes nothing, now or later. With another description, an apply changes the description alone, both
// in what runs and for the next start.
func TestAccVirtualMachine_importAnything(t *testing.T) {
	t.Parallel()
	l := lab.Open(t)
	tf := acctest.NewCLI(t)
	prefix := lab.Name(t)
	image := l.Image(t, "kvm1", prefix+".qcow2", "qcow2", 1<<20)
	spare := l.Image(t, "kvm1", prefix+"-2.qcow2", "qcow2", 1<<20)
	overlaid := l.Image(t, "kvm1", prefix+"-3.qcow2", "qcow2", 1<<20)
	imports := ""
	before, inactive := map[string]string{}, map[string]string{}
	for key, h := range handmade {
		name := prefix + "-" + key
		disk := image
		if key == "snapshots" {
			disk = spare
		}
		xml := strings.NewReplacer("IMAGE", disk, "OVERLAID", overlaid).Replace(fmt.Sprintf(h.xml, name))
		l.RemoveDomain(t, name)
		switch {
		case h.transient:
			file := filepath.Join(t.TempDir(), "domain.xml")
			if err := os.WriteFile(file, []byte(xml), 0o600); err != nil {
				t.Fatal(err)
			}
			l.Virsh(t, "kvm1", "create", file)
		case h.off:
			l.Define(t, "kvm1", xml)
		default:
			l.Define(t, "kvm1", xml)
			l.Virsh(t, "kvm1", "start", name)
		}
		if h.after != nil {
			h.after(t, l, name)
		}
		before[key] = l.Virsh(t, "kvm1", "dumpxml", "--security-info", name)
		inactive[key] = l.Virsh(t, "kvm1", "dumpxml", "--security-info", "--inactive", name)
		id := name
		if len(imports)%2 == 0 {
			id = uuidOf(t, l, "kvm1", name)
		}
		imports += fmt.Sprintf("import {\n  to = %s.%s\n  id = %q\n}\n", virtualmachine.TypeName, key, id)
	}

	tf.Config(t, acctest.OneHost(l)+imports)
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
	if t.Failed() {
		t.Logf("%s\n%s", tf.Run(t, "show", "planned"), config)
		t.FailNow()
	}
	tf.Run(t, "apply")
	noChanges(t, tf)
	for key, h := range handmade {
		state, _ := tf.State(t, virtualmachine.TypeName+"."+key)
		if state["host"] != nil || state["run_strategy"] != h.strategy || state["current_host"] != "kvm1" {
			t.Errorf("%s: host %v, run_strategy %v, current_host %v; want null, %v, kvm1",
				key, state["host"], state["run_strategy"], state["current_host"], h.strategy)
		}
		if after := l.Virsh(t, "kvm1", "dumpxml", "--security-info", prefix+"-"+key); after != before[key] {
			t.Errorf("%s was changed:\n%s\nwas\n%s", key, after, before[key])
		}
	}

	// A VM that runs and starts with its host is as the default of run_strategy says: to leave that out changes nothing.
	always := regexp.MustCompile(` *run_strategy += "Always"\n`)
	if !always.Match(config) {
		t.Errorf("no VM was imported with the default of run_strategy: %s", config)
	}
	if err := os.WriteFile(generated, always.ReplaceAll(config, nil), 0o600); err != nil {
		t.Fatal(err)
	}
	noChanges(t, tf)

	descriptions := ""
	for key := range handmade {
		descriptions += fmt.Sprintf("resource %q %q {\n  description = \"Changed.\"\n}\n", virtualmachine.TypeName, key)
	}
	if err := os.WriteFile(filepath.Join(tf.Dir, "descriptions_override.tf"), []byte(descriptions), 0o600); err != nil {
		t.Fatal(err)
	}
	tf.Run(t, "apply")
	noChanges(t, tf)
	for key := range handmade {
		for _, d := range []struct{ before, after string }{
			{before[key], l.Virsh(t, "kvm1", "dumpxml", "--security-info", prefix+"-"+key)},
			{inactive[key], l.Virsh(t, "kvm1", "dumpxml", "--security-info", "--inactive", prefix+"-"+key)},
		} {
			if diff := cmp.Diff(besidesDescription(t, d.before), besidesDescription(t, d.after)); diff != "" {
				t.Errorf("%s has more changes than its description:\n%s", key, diff)
			}
		}
	}

	// None of these guests would hear that it should shut down. The transient one is gone once it is off.
	names := make([]string, 0, len(handmade))
	for key, h := range handmade {
		names = append(names, prefix+"-"+key)
		if !h.off {
			l.Virsh(t, "kvm1", "destroy", prefix+"-"+key)
		}
	}
	destroyAndCheck(t, l, tf, names...)
}

// besidesDescription are the lines of a definition that a change of its description leaves alone, in any order: libvirt
// sorts the controllers when it reads a definition again. That libvirt has chosen secure boot is known only while the
// VM runs; the configuration that Terraform writes declares it, and so does the definition from then on.
func besidesDescription(t *testing.T, xml string) []string {
	t.Helper()
	lines := slices.DeleteFunc(linesWithoutOurs(t, xml), func(line string) bool {
		return strings.Contains(line, `name="secure-boot"`) || strings.TrimSpace(line) == `{}firmware ""` ||
			strings.Contains(line, "{}smm ")
	})
	slices.Sort(lines)
	return lines
}
