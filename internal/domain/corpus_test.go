package domain

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// corpus is definitions as people and their tools write them, by file. Those in elsewhere need a newer libvirt or QEMU,
// or another architecture, than the lab has. The others are also imported there, by TestAccVirtualMachine_importCorpus.
func corpus(t testing.TB) map[string]string {
	t.Helper()
	found := map[string]string{}
	for _, pattern := range []string{"testdata/corpus/*.xml", "testdata/corpus/elsewhere/*.xml"} {
		files, err := filepath.Glob(pattern)
		if err != nil || len(files) < 30 {
			t.Fatalf("%s has %d definitions: %v", pattern, len(files), err)
		}
		for _, file := range files {
			data, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			found[file] = string(data)
		}
	}
	return found
}

// TestCorpus_changesOnlyByWhatIsDeclared: nothing, or what is read of it, changes no definition. A description changes
// the description.
func TestCorpus_changesOnlyByWhatIsDeclared(t *testing.T) {
	t.Parallel()
	for file, xml := range corpus(t) {
		d := parse(t, xml)
		before, meaning := output(t, d), lines(d)
		if changes := Changes(d.Spec(), d.Spec()); len(changes) > 0 {
			t.Errorf("%s differs from itself: %v", file, changes)
		}
		for _, want := range []Spec{{}, d.Spec()} {
			if err := d.Apply(want); err != nil {
				t.Errorf("%s: %v", file, err)
			}
			if diff := cmp.Diff(before, output(t, d)); diff != "" {
				t.Errorf("%s changes:\n%s", file, diff)
			}
		}

		want := d.Spec()
		if err := d.SetMetadata(Metadata{Devices: d.DeviceNames(nil)}); err != nil {
			t.Errorf("%s: %v", file, err)
		}
		if diff := cmp.Diff(want, d.Spec()); diff != "" {
			t.Errorf("%s is read as something else when its devices' names are recorded:\n%s", file, diff)
		}
		want.Values = maps.Clone(want.Values)
		want.Values["description"] = "Changed."
		if err := d.Apply(want); err != nil {
			t.Errorf("%s: %v", file, err)
		}
		after := lines(d)
		for _, changed := range []map[string]int{diffLines(meaning, after), diffLines(after, meaning)} {
			for line := range changed {
				if !strings.HasPrefix(line, "description") && !strings.HasPrefix(line, "{urn:virtfleet:1}") &&
					line != "metadata" {
					t.Errorf("%s changes by its description: %s", file, line)
				}
			}
		}
	}
}

// onlyElsewhere are attributes that the lab's libvirt can't define: its QEMU has no memory protection, it was built
// without passt, it emulates no architecture whose serial ports have several models, and some enlightenments are newer.
var onlyElsewhere = []string{
	"platform.launch_security.", "interfaces.backend.", "devices.serials.target_model", "platform.hyperv.tlbflush_",
	"platform.hyperv.emsr_bitmap",
	"platform.hyperv.xmm_input",
}

// TestCorpus_hasEveryAttribute: what no definition has would be imported by no test, nor read as libvirt writes it.
func TestCorpus_hasEveryAttribute(t *testing.T) {
	t.Parallel()
	found := map[string]bool{}
	for file, xml := range corpus(t) {
		elsewhere := strings.Contains(file, "elsewhere")
		note := func(prefix string, said map[string]string) {
			for name := range said {
				at := join(prefix, name)
				found[at] = found[at] || !elsewhere || slices.ContainsFunc(onlyElsewhere, func(prefix string) bool {
					return strings.HasPrefix(at, prefix)
				})
			}
		}
		s := parse(t, xml).Spec()
		note("", s.Values)
		for _, f := range Families {
			for _, row := range f.Of(s) {
				note(f.Path, row)
			}
		}
		for _, disk := range s.Disks {
			note("disks", disk.Values)
			if disk.Source.Network != nil {
				note("disks.network", disk.Source.Network.Values)
			}
		}
		for _, nic := range s.Interfaces {
			note("interfaces", nic.Values)
		}
	}
	expect := func(prefix string, all []Attribute) {
		for _, a := range all {
			if at := join(prefix, a.Name); !a.Recorded && !found[at] {
				t.Errorf("no definition has %s", at)
			}
		}
	}
	for _, g := range Groups {
		expect(g.Path, g.Attributes)
	}
	for _, f := range Families {
		expect(f.Path, f.Attributes)
	}
	expect("disks", DiskRows)
	expect("disks.network", NetworkRows)
	expect("interfaces", InterfaceRows)
}
