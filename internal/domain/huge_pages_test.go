package domain

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestHugePages_ofCells: the sizes of all memory and of single cells are changed independently of each other, and
// nothing that isn't declared is lost.
func TestHugePages_ofCells(t *testing.T) {
	t.Parallel()
	const (
		all    = `<page size="2048" unit="KiB"/>`
		first  = `<page size="1048576" unit="KiB" nodeset="0"/>`
		second = `<page size="2" unit="M" nodeset="1-2"/>`
	)
	for name, tt := range map[string]struct {
		pages string // What the definition has; "" for no element.
		want  Values
		is    string // What it has then.
		says  string
	}{
		"nothing": {all + first, Values{}, all + first, ""},
		"the same": {
			first + second + all,
			Values{cellPages: "0=1024Mi\n1=2Mi\n2=2048Ki\n", hugePages: "2048Ki"},
			first + second + all, "",
		},
		"of a cell": {all, Values{cellPages: "0=1Gi\n"}, all + first, ""},
		"of cells": {
			"", Values{cellPages: "0=1Gi\n1=2Mi\n2=2Mi\n"}, `<page size="2048" unit="KiB" nodeset="1-2"/>` + first, "",
		},
		"of one fewer":                     {first + second, Values{cellPages: "0=1Gi\n"}, first, ""},
		"of all others":                    {first, Values{hugePages: "2Mi"}, first + all, ""},
		"of no others":                     {all + first, Values{hugePages: None}, first, ""},
		"of no cell":                       {all + first, Values{cellPages: ""}, all, ""},
		"of none":                          {all + first, Values{cellPages: "", hugePages: ""}, "", ""},
		"of no cell, and of no others":     {first, Values{cellPages: ""}, "", ""},
		"of a size instead of the default": {"default", Values{cellPages: "0=1Gi\n", hugePages: None}, first, ""},
		"of the default size instead":      {first, Values{cellPages: "", hugePages: hugeDefault}, "default", ""},
		"of a cell, and the default": {
			"default", Values{cellPages: "0=1Gi\n"}, "", cellPages + ": The VM has huge pages of the host's default size.",
		},
		"of the default, and a cell": {
			first, Values{hugePages: hugeDefault}, "", hugePages + ": Single NUMA cells have huge pages.",
		},
		"of a cell that isn't there": {all, Values{cellPages: "3=2Mi\n"}, "", cellPages + ": cpu.numa has no cell 3."},
		"of a cell that goes": {
			second, Values{cpuNUMA: "0.cpus=0\n0.memory=3221225472\n"}, "", cellPages + ": cpu.numa has no cell 1.",
		},
	} {
		d := parse(t, `<domain><name>n</name><memory unit="GiB">3</memory>`+backing(tt.pages)+`<vcpu>1</vcpu><cpu><numa>
  <cell id="0" cpus="0" memory="1" unit="GiB"/><cell id="1" memory="1" unit="GiB"/><cell id="2" memory="1" unit="GiB"/>
  </numa></cpu></domain>`)
		err := d.Apply(Spec{Values: tt.want})
		if tt.says != "" {
			if err == nil || !strings.Contains(err.Error(), tt.says) {
				t.Errorf("%s: %v, want %q", name, err, tt.says)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if is := strings.Join(strings.Fields(output(t, d)), " "); !strings.Contains(
			strings.ReplaceAll(is, "> <", "><"), "</memory>"+backing(tt.is)+"<vcpu>") {
			t.Errorf("%s: %s", name, is)
		}
		for path, value := range (Spec{Values: tt.want}).normal().Values {
			if got := d.Spec().Values[path]; got != value {
				t.Errorf("%s: %s is %q, and was declared as %q", name, path, got, value)
			}
		}
	}
}

// TestHugePages_withoutCells: libvirt takes the pages of cell 0 for those of all memory. Each plan would show the
// difference.
func TestHugePages_withoutCells(t *testing.T) {
	t.Parallel()
	want := Spec{
		Name: "n", Type: "kvm", CPU: CPU{VCPUs: new(1)}, Memory: sizeOf(64), Values: Values{cellPages: "0=2Mi\n"},
	}
	if _, err := New(want, testUUID); err == nil || !strings.Contains(err.Error(), "cpu.numa has no cell 0.") {
		t.Errorf("%v", err)
	}
	want.Memory.MaxSize = new(uint64(1 << 30)) // Such a VM has a cell.
	if _, err := New(want, testUUID); err != nil {
		t.Error(err)
	}
}

// TestHugePages_keptValues: pages and cells that a change leaves alone count with those that it declares.
func TestHugePages_keptValues(t *testing.T) {
	t.Parallel()
	have := Values{cpuNUMA: twoCells, hugePages: "2Mi", cellPages: "0=1Gi\n"}
	for name, tt := range map[string]struct {
		want Values
		uses map[uint64]uint64
	}{
		"other pages":   {Values{"memory.locked": "yes"}, map[uint64]uint64{}},
		"of a cell":     {Values{cellPages: "1=16Mi\n"}, map[uint64]uint64{2 * mib: 512 * mib, 16 * mib: 512 * mib}},
		"of no cell":    {Values{cellPages: "", hugePages: "16Mi"}, map[uint64]uint64{16 * mib: 1024 * mib}},
		"of the others": {Values{hugePages: "16Mi"}, map[uint64]uint64{1 << 30: 512 * mib, 16 * mib: 512 * mib}},
	} {
		want := Spec{Memory: sizeOf(1024), Values: tt.want}.WithPagesOf(have)
		if diff := cmp.Diff(tt.uses, want.HostUse().Pages); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}

// backing returns the element that has the pages.
func backing(pages string) string {
	switch pages {
	case "":
		return ""
	case "default":
		return "<memoryBacking><hugepages/></memoryBacking>"
	default:
		return "<memoryBacking><hugepages>" + pages + "</hugepages></memoryBacking>"
	}
}
