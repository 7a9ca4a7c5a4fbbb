package domain

import (
	"strings"
	"testing"
)

// runningVM is a VM with a device of each kind that has keys. ID makes it run.
const runningVM = `<domain type="qemu"ID><name>v</name><uuid>6a9ae2dc-22f3-4d0c-a8d8-0a9b2f1dca10</uuid>
  <maxMemory slots="16" unit="GiB">8</maxMemory><memory unit="GiB">2</memory><currentMemory unit="GiB">1</currentMemory>
  <vcpu>1</vcpu><os><type arch="x86_64" machine="pc-q35-7.2">hvm</type></os>
  <cpu><numa><cell id="0" cpus="0" memory="1" unit="GiB"/></numa></cpu><devices>
  <controller type="pci" index="0" model="pcie-root"/><controller type="pci" index="1" model="pcie-root-port"/>
  <controller type="pci" index="2" model="pcie-root-port"/><controller type="pci" index="3" model="pcie-root-port"/>
  <controller type="virtio-serial" index="0"/><controller type="usb" index="0" model="qemu-xhci"/>
  <disk type="file" device="disk"><driver name="qemu" type="raw"/><source file="/1"/><target dev="vda" bus="virtio"/>
  <alias name="ua-disk-a"/></disk>
  <interface type="user"><mac address="52:54:00:00:00:01"/><model type="virtio"/><alias name="ua-net-a"/></interface>
  <channel type="unix"><target type="virtio" name="org.example.a"/><alias name="ua-channel-a"/></channel>
  <memory model="virtio-mem"><target><size unit="GiB">1</size><node>0</node><block unit="MiB">2</block>
  <requested unit="MiB">512</requested></target><alias name="ua-virtio-mem-a"/></memory>
  </devices></domain>`

// ourAliases are the aliases that imported devices don't have.
var ourAliases = strings.NewReplacer(`<alias name="ua-disk-a"/>`, "", `<alias name="ua-net-a"/>`, "")

// run is a running VM to which specs are applied.
type run struct {
	live, persistent *Definition
	t                *testing.T
}

// apply applies a spec to the persistent definition as an update does, and returns the calls on the running VM.
func (r *run) apply(want Spec) []Step {
	r.t.Helper()
	before := r.persistent.Clone()
	if err := r.persistent.Apply(want); err != nil {
		r.t.Fatal(err)
	}
	if err := r.persistent.RecordRunning(before, want); err != nil {
		r.t.Fatal(err)
	}
	steps, err := LiveSteps(r.live, before, r.persistent, want)
	if err != nil {
		r.t.Fatal(err)
	}
	names := r.persistent.DeviceNames(r.live)
	for _, d := range []*Definition{r.live, r.persistent} {
		if err := d.setDeviceNames(names); err != nil {
			r.t.Fatal(err)
		}
	}
	return steps
}

// changes returns what a plan calls the changes from what runs to want.
func (r *run) changes(want Spec) string {
	live, persistent := r.live.Spec(), r.persistent.Spec()
	return describeChanges(Changes(FollowDefinition(*AlignKeys(&live, &persistent), persistent, want), want))
}

// oneOf declares one device of each kind of runningVM, after a change.
func oneOf(key string, change func(*Disk, *Interface, Row, Row)) Spec {
	d := Disk{Source: DiskSource{File: "/1"}}
	i := Interface{User: true, MAC: "52:54:00:00:00:01"}
	channel, memory := Row{"type": "unix", "name": "org.example.a"}, Row{"size": "1073741824", "requested": "536870912"}
	if change != nil {
		change(&d, &i, channel, memory)
	}
	return Spec{
		Disks: map[string]Disk{key: d}, Interfaces: map[string]Interface{key: i},
		Channels: map[string]Row{key: channel}, VirtioMem: map[string]Row{key: memory},
	}
}

// TestRunningKeys_stagedChange: a device that was renamed is the same one after a change that waits for a restart,
// in whatever order the two are made, and whether the VM was created here or imported.
func TestRunningKeys_stagedChange(t *testing.T) {
	t.Parallel()
	staged := func(d *Disk, i *Interface, channel, _ Row) {
		d.Source.File, d.Bus, i.MAC, channel["name"] = "/2", "sata", "52:54:00:00:00:02", "org.example.b"
	}
	requested := func(d *Disk, i *Interface, channel, memory Row) {
		staged(d, i, channel, memory)
		memory["requested"] = "2097152"
	}
	for name, specs := range map[string][]Spec{
		"renamed, then staged":         {oneOf("b", nil), oneOf("b", staged)},
		"staged, then renamed":         {oneOf("a", staged), oneOf("b", staged)},
		"renamed twice":                {oneOf("b", nil), oneOf("c", nil), oneOf("c", staged), oneOf("b", staged)},
		"renamed back":                 {oneOf("b", nil), oneOf("b", staged), oneOf("a", staged), oneOf("b", staged)},
		"only staged":                  {oneOf("a", staged), oneOf("b", staged)},
		"another amount of memory too": {oneOf("b", nil), oneOf("b", requested)},
	} {
		for _, imported := range []bool{false, true} {
			xml := runningVM
			if imported {
				xml = ourAliases.Replace(xml)
			}
			r := &run{
				live: parse(t, strings.Replace(xml, "ID", ` id="1"`, 1)), persistent: parse(t, strings.Replace(xml, "ID", "", 1)),
				t: t,
			}
			if imported {
				r.apply(oneOf("a", nil))
			}
			for n, want := range specs {
				requests := n == len(specs)-1 && strings.HasPrefix(name, "another")
				for _, step := range r.apply(want) {
					if step.Kind != Update || step.Path != "devices.virtio_mem.b" || !requests {
						t.Errorf("%s %v: step %d makes %v: %s", name, imported, n, step.Kind, step.XML)
					}
				}
			}
			want := specs[len(specs)-1]
			key := sortedKeys(want.Disks)[0]
			is := "disks." + key + ".file restart, disks." + key + ".bus restart, interfaces." + key + ".mac restart, " +
				"devices.channels." + key + ".name restart"
			if strings.HasPrefix(name, "another") {
				is += ", devices.virtio_mem." + key + ".requested live"
			}
			if got := r.changes(want); got != is {
				t.Errorf("%s %v: a plan has %s", name, imported, got)
			}
			// Once the VM is started again, it has what its definition has.
			r.live = parse(t, strings.Replace(output(t, r.persistent), `<domain type="qemu"`, `<domain id="2" type="qemu"`, 1))
			got := r.changes(want)
			if steps := r.apply(want); got != "" || len(steps) > 0 || len(r.persistent.DeviceNames(nil)) !=
				len(r.persistent.recordedNames()) {
				t.Errorf("%s %v: after a restart a plan has %s: %v\n%s", name, imported, got, steps, output(t, r.persistent))
			}
		}
	}
}

// A running disk that is declared again under the key that it still has isn't the one whose place it took in the
// definition.
func TestRunningKeys_takenBack(t *testing.T) {
	t.Parallel()
	disk := func(n, target string) string {
		return `<disk type="file" device="disk"><driver name="qemu" type="raw"/><source file="/` + n + `"/><target dev="` +
			target + `" bus="virtio"/><alias name="ua-disk-d` + n + `"/></disk>`
	}
	xml := strings.Replace(runningVM, "<interface", disk("2", "vdb")+disk("3", "vdc")+"<interface", 1)
	declared := func(keys map[string]string) Spec {
		s := Spec{Disks: map[string]Disk{"a": {Source: DiskSource{File: "/1"}}}}
		for key, file := range keys {
			s.Disks[key] = Disk{Source: DiskSource{File: file}}
		}
		return s
	}
	r := &run{
		live: parse(t, strings.Replace(xml, "ID", ` id="1"`, 1)), persistent: parse(t, strings.Replace(xml, "ID", "", 1)),
		t: t,
	}
	if steps := r.apply(declared(map[string]string{"d2": "/3"})); len(steps) > 0 {
		t.Errorf("the shifted disk: %s %s", steps[0].Kind, steps[0].XML)
	}
	steps := r.apply(declared(map[string]string{"d3": "/3"}))
	if len(steps) != 1 || steps[0].Kind != Detach || !strings.Contains(steps[0].XML, `"/2"`) {
		t.Errorf("the key is given back, and the calls are %v", steps)
	}
}
