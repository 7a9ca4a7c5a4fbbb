package domain

import (
	"strings"
	"testing"
)

// withMemory is a running VM of 1 GiB that has taken a quarter of a memory device of 1 GiB, half of which is requested.
const withMemory = `<domain id="1"><name>n</name><maxMemory slots="16" unit="GiB">8</maxMemory>
  <memory unit="GiB">2</memory><currentMemory unit="MiB">1280</currentMemory><vcpu>1</vcpu>
  <cpu><numa><cell id="0" cpus="0" memory="1" unit="GiB"/></numa></cpu>
  <devices><memory model="virtio-mem"><target><size unit="GiB">1</size><node>0</node><block unit="MiB">2</block>
  <requested unit="MiB">512</requested><current unit="MiB">256</current></target>
  <alias name="ua-virtio-mem-a"/></memory></devices></domain>`

// TestVirtioMem_isNoPartOfTheSize: memory.size is without the memory devices, <memory> counts them as a whole, and what
// the VM may use of its host is all of them.
func TestVirtioMem_isNoPartOfTheSize(t *testing.T) {
	t.Parallel()
	const gib = 1 << 30
	d := parse(t, withMemory)
	is := func(bytes, whole, usable uint64) {
		t.Helper()
		s := d.Spec()
		total, _ := size(child(d.root(), "memory"))
		if *s.Memory.Size != bytes || *s.Memory.Installed != bytes || total != whole || s.UsableMemory() != usable {
			t.Errorf("%d, %d installed, %d as a whole, %d usable", *s.Memory.Size, *s.Memory.Installed, total, s.UsableMemory())
		}
		if d.Mobility().Memory != usable {
			t.Errorf("it moves with %d", d.Mobility().Memory)
		}
	}
	is(gib, 2*gib, 2*gib)
	for _, want := range []Spec{
		{VirtioMem: map[string]Row{
			"a": {"size": "1073741824", "requested": "0"}, "b": {"size": "2147483648", "requested": "2097152"},
		}},
		{Memory: Memory{Size: new(uint64(2 * gib))}},
	} {
		if err := d.Apply(want); err != nil {
			t.Fatal(err)
		}
		if changes := Changes(d.Spec(), want); len(changes) > 0 {
			t.Errorf("still to be changed: %v", changes)
		}
	}
	for _, e := range d.devices("memory") { // As in a persistent definition.
		dropChildren(child(e, "target"), "current")
	}
	is(2*gib, 5*gib, 5*gib)
	for _, test := range []struct {
		want Spec
		says string
	}{
		{Spec{VirtioMem: map[string]Row{"a": {"size": "8589934592"}}}, "The VM has 8192 MiB, and with the whole size"},
		{Spec{Memory: Memory{MaxSize: new(uint64(4 * gib))}}, "memory.max_size: The VM has 4096 MiB"},
		{Spec{Memory: Memory{MaxSize: new(uint64(0))}}, "memory.max_size: A VM with devices.virtio_mem needs it."},
	} {
		if err := d.Apply(test.want); err == nil || !strings.Contains(err.Error(), test.says) {
			t.Errorf("%v", err)
		}
	}
	if err := d.Apply(Spec{VirtioMem: map[string]Row{}}); err != nil {
		t.Fatal(err)
	}
	is(2*gib, 2*gib, 2*gib)
}

// TestVirtioMem_comesWhereThereIsRoom: a running VM is given a device if it has room for it, and its guest is asked for
// more or less memory; a device leaves with a restart.
func TestVirtioMem_comesWhereThereIsRoom(t *testing.T) {
	t.Parallel()
	d := parse(t, withMemory)
	a := Row{"size": "1073741824", "requested": "2097152"}
	want := Spec{VirtioMem: map[string]Row{"a": a, "b": {"size": "6442450944", "requested": "4194304"}}}
	steps, err := LiveSteps(d, nil, nil, want)
	if err != nil || len(steps) != 2 || steps[0].Kind != Update || steps[1].Kind != Attach ||
		!strings.Contains(steps[0].XML, `<requested unit="KiB">2048</requested>`) ||
		!strings.Contains(steps[1].XML, `<requested unit="KiB">0</requested>`) || !steps[1].Begins() {
		t.Errorf("%v, %v", steps, err)
	}
	for why, all := range map[string]map[string]Row{
		"no room for another memory device": {"a": a, "b": {"size": "6444548096"}},
		"can't be unplugged":                {},
	} {
		changes := Changes(d.Spec(), Spec{VirtioMem: all})
		if len(changes) == 0 || changes[len(changes)-1].Live || !strings.Contains(changes[len(changes)-1].Why, why) {
			t.Errorf("%s: %v", why, changes)
		}
	}
}

// TestVirtioMem_refusesWhatDoesNotFit: libvirt wants whole blocks, and a cell that is there.
func TestVirtioMem_refusesWhatDoesNotFit(t *testing.T) {
	t.Parallel()
	for says, row := range map[string]Row{
		"a.size: It must be declared":              {"requested": "2097152"},
		"a.block: It isn't a power of two from":    {"size": "6291456", "block": "3145728"},
		"a.block: It isn't a power of two from 2M": {"size": "4194304", "block": "1048576"},
		"a.size: It isn't a multiple":              {"size": "3145728"},
		"a.requested: It isn't a multiple":         {"size": "4194304", "requested": "1048576"},
		"a.requested: It is more than the size":    {"size": "4194304", "requested": "8388608"},
		"a.node: cpu.numa has no such cell":        {"size": "4194304", "node": "7"},
		"memory.max_size: The VM has 2048 MiB, an": {"size": "2147483648"},
	} {
		s := Spec{
			CPU: CPU{VCPUs: new(4)}, VirtioMem: map[string]Row{"a": row}, Values: Values{cpuNUMA: twoCells},
			Memory: Memory{Size: new(uint64(1 << 30)), MaxSize: new(uint64(2 << 30))},
		}
		if problems := s.Validate(); len(problems) != 1 || !strings.Contains(problems[0].Error(), says) {
			t.Errorf("%s: %v", says, problems)
		}
	}
}
