package domain

import (
	"strings"
	"testing"
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
			first + second + all, Values{cellPages: "0=1024Mi\n1=2Mi\n2=2048Ki\n", hugePages: "2048Ki"},
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
		"of a cell that isn't there": {all, Values{cellPages: "3=2Mi\n"}, "", cellPages + ": The guest has no NUMA cell 3."},
		"of a cell that goes": {
			second, Values{cpuNUMA: "0.cpus=0\n0.memory=3221225472\n"}, "", cellPages + ": The guest has no NUMA cell 1.",
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
