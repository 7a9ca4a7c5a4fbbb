package domain

import (
	"strings"
	"testing"
)

const twoCells = "0.cpus=0-1\n0.memory=536870912\n1.cpus=2-3\n1.memory=536870912\n"

// TestNUMA_refusesWhatDoesNotFit: cells, virtual CPUs and memory have to fit together before a host is asked.
func TestNUMA_refusesWhatDoesNotFit(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		values Values
		memory Memory
		says   string
	}{
		{values: Values{cpuNUMA: twoCells}, memory: Memory{Size: new(uint64(1 << 30))}},
		{values: Values{cpuNUMA: twoCells}, memory: Memory{Size: new(uint64(1 << 29))}}, // The rest is in the balloon.
		{values: Values{cpuNUMA: twoCells}, memory: Memory{Size: new(uint64(2 << 30)), MaxSize: new(uint64(4 << 30))}},
		{
			values: Values{cpuNUMA: twoCells}, memory: Memory{Size: new(uint64(2 << 30))},
			says: "cpu.numa: The cells have 1024 MiB together, and memory.size is 2048 MiB.",
		},
		{
			values: Values{cpuNUMA: strings.ReplaceAll(twoCells, "1.", "2.")}, memory: Memory{Size: new(uint64(1 << 30))},
			says: "aren't numbered from 0",
		},
		{values: Values{cpuNUMA: "a.memory=4096\n"}, says: `The key "a" isn't a number`},
		{values: Values{cpuNUMA: "0.cpus=0\n"}, says: "cpu.numa.0.memory: A cell needs memory."},
		{values: Values{cpuNUMA: "0.cpus=x\n0.memory=4096\n"}, says: "isn't a set of CPUs"},
		{values: Values{cpuNUMA: strings.Replace(twoCells, "2-3", "1-2", 1)}, says: "Virtual CPU 1 is in cell 0, too."},
		{values: Values{cpuNUMA: strings.Replace(twoCells, "2-3", "2-9", 1)}, says: "The VM has virtual CPUs 0 to 3."},
		{
			values: Values{cpuNUMA: ""}, memory: Memory{Size: new(uint64(1 << 30)), MaxSize: new(uint64(4 << 30))},
			says: "at least one cell",
		},
		{
			values: Values{cpuNUMA: twoCells, "memory.numatune.cells": "2.mode=strict\n2.nodeset=0\n"},
			says:   "has no such cell",
		},
		{
			values: Values{"memory.numatune.cells": "0.mode=strict\n"},
			says:   "memory.numatune.cells.0.nodeset: It must be declared.",
		},
		{values: Values{cpuNUMA: twoCells + `0.distances=1\e21\n` + "\n" + `1.distances=0\e21\n` + "\n"}},
		{values: Values{cpuNUMA: twoCells + `0.distances=1\e21\n` + "\n"}, says: "Cell 1 lists no distance to cell 0."},
		{values: Values{cpuNUMA: twoCells + `0.distances=2\e21\n` + "\n"}, says: "There is no cell 2."},
		{values: Values{cpuNUMA: twoCells + `0.distances=0\e21\n` + "\n"}, says: "itself is always 10"},
		{
			values: Values{cpuNUMA: twoCells + `0.distances=1\e9\n` + "\n" + `1.distances=0\e11\n` + "\n"},
			says:   "from 11 to 255",
		},
		{values: Values{"memory.numatune.mode": "strict"}, says: "memory.numatune.nodeset: The mode needs nodes."},
		{values: Values{"memory.numatune.mode": "strict", "memory.numatune.placement": "auto"}},
	} {
		s := Spec{CPU: CPU{VCPUs: new(4)}, Memory: test.memory, Values: test.values}
		var said strings.Builder
		for _, p := range s.Validate() {
			said.WriteString(p.Error() + "\n")
		}
		if !strings.Contains(said.String(), test.says) || (said.String() == "") != (test.says == "") {
			t.Errorf("%v: %q, not %q", test.values, said.String(), test.says)
		}
	}
}

// TestNUMA_ofCPUsThatDoNotFit: sockets, cores and threads that don't give the CPUs have their own error, and none for
// each cell.
func TestNUMA_ofCPUsThatDoNotFit(t *testing.T) {
	t.Parallel()
	s := Spec{CPU: CPU{VCPUs: new(4), Sockets: new(1), Cores: new(2)}, Values: Values{cpuNUMA: twoCells}}
	if problems := s.Validate(); len(problems) > 0 {
		t.Error(problems)
	}
}

// TestNUMA_changesWithTheRest: cells that are declared take the place of those that are there, whatever the number of
// CPUs and the memory become with them, and must have all of the memory.
func TestNUMA_changesWithTheRest(t *testing.T) {
	t.Parallel()
	d := parse(t, `<domain><name>n</name><memory unit="GiB">1</memory><vcpu>4</vcpu></domain>`)
	two := Spec{Values: Values{cpuNUMA: twoCells}}
	one := Spec{
		CPU: CPU{VCPUs: new(2)}, Memory: Memory{Size: new(uint64(2 << 30))},
		Values: Values{cpuNUMA: "0.cpus=0-1\n0.memory=2147483648\n"},
	}
	for _, want := range []Spec{two, one} {
		if err := d.Apply(want); err != nil {
			t.Fatal(err)
		}
		if got := d.Spec().Values[cpuNUMA]; got != want.Values[cpuNUMA] {
			t.Errorf("the cells are %q", got)
		}
	}
	two.Memory = Memory{Size: new(uint64(4 << 30)), MaxSize: new(uint64(8 << 30))}
	if err := d.Apply(two); err == nil || !strings.Contains(err.Error(), "The cells have 1024 MiB together") {
		t.Errorf("%v", err)
	}
}

// TestNUMA_pluggedMemoryIsNoChange: memory that was plugged into the running VM is in the cells that it starts with
// next. That is nothing that a restart changes.
func TestNUMA_pluggedMemoryIsNoChange(t *testing.T) {
	t.Parallel()
	live := parse(t, `<domain id="1"><maxMemory slots="16" unit="GiB">8</maxMemory><memory unit="GiB">2</memory>
  <currentMemory unit="GiB">2</currentMemory><vcpu>2</vcpu>
  <cpu><numa><cell id="0" cpus="0-1" memory="1" unit="GiB"/></numa></cpu><devices><memory model="dimm"><target>
  <size unit="GiB">1</size><node>0</node></target></memory></devices></domain>`).Spec()
	persistent := parse(t, `<domain><maxMemory slots="16" unit="GiB">8</maxMemory><memory unit="GiB">2</memory>
  <currentMemory unit="GiB">2</currentMemory><vcpu>2</vcpu>
  <cpu><numa><cell id="0" cpus="0-1" memory="2" unit="GiB"/></numa></cpu><devices/></domain>`).Spec()
	if pending := Pending(live, persistent); len(pending) > 0 {
		t.Error(pending)
	}
	persistent.Values = Values{cpuNUMA: strings.Replace(persistent.Values[cpuNUMA], "0-1", "0", 1)}
	if pending := Pending(live, persistent); len(pending) != 1 || pending[0].Path != cpuNUMA {
		t.Error(pending)
	}
}
