package domain

import (
	"slices"
	"strings"
	"testing"
)

// withNVDIMM is a VM of 1 GiB with an NVDIMM of 512 MiB.
const withNVDIMM = `<domain><name>n</name><maxMemory slots="16" unit="GiB">8</maxMemory>
  <memory unit="MiB">1536</memory><currentMemory unit="MiB">1536</currentMemory><vcpu>1</vcpu>
  <cpu><numa><cell id="0" cpus="0" memory="1" unit="GiB"/></numa></cpu><devices>
  <memory model="nvdimm" access="shared"><source><path>/srv/a&amp;b</path></source><target><size unit="MiB">512</size>
  <node>0</node></target><alias name="ua-nvdimm-a"/></memory></devices></domain>`

// TestNVDIMM_isNoPartOfTheSize: memory.size and the memory of the host are without NVDIMMs, whether <currentMemory>
// counts them, as libvirt does in a definition, or doesn't, as the balloon does while the VM runs.
func TestNVDIMM_isNoPartOfTheSize(t *testing.T) {
	t.Parallel()
	const gib = 1 << 30
	for _, current := range []string{"1536", "1024"} {
		xml := strings.Replace(withNVDIMM, `<currentMemory unit="MiB">1536`, `<currentMemory unit="MiB">`+current, 1)
		d := parse(t, xml)
		if s := d.Spec(); *s.Memory.Size != gib || *s.Memory.Installed != gib || s.UsableMemory() != gib {
			t.Errorf("%s: %d, %d installed, %d of the host", current, *s.Memory.Size, *s.Memory.Installed, s.UsableMemory())
		}
		for _, want := range []Spec{
			{Memory: Memory{Size: new(uint64(2 * gib))}},
			{NVDIMMs: map[string]Row{}},
		} {
			if err := d.Apply(want); err != nil {
				t.Fatal(err)
			}
		}
		total, _ := size(child(d.root(), "memory"))
		if s := d.Spec(); *s.Memory.Size != 2*gib || total != 2*gib {
			t.Errorf("%s: %d, <memory> %d", current, *s.Memory.Size, total)
		}
	}
}

// TestNVDIMM_hasOneWriter: the file is known as one that the VM writes to, and is found in the document by its path.
func TestNVDIMM_hasOneWriter(t *testing.T) {
	t.Parallel()
	for access, written := range map[string]bool{`access="shared"`: true, `access="private"`: false, "": false} {
		xml := strings.Replace(withNVDIMM, `access="shared"`, access, 1)
		uses := parse(t, xml).DiskUses()
		if written != (len(uses) == 1 && uses[0].NVDIMM && uses[0].Key == "a" && uses[0].Source.File == "/srv/a&b") {
			t.Errorf("%s: %v", access, uses)
		}
		if !slices.Contains(SourceNames(xml), "/srv/a&b") {
			t.Error(SourceNames(xml))
		}
	}
	read := strings.Replace(withNVDIMM, "<node>", "<readonly/><node>", 1)
	if uses := parse(t, read).DiskUses(); len(uses) > 0 {
		t.Errorf("%v", uses)
	}
}

// TestNVDIMM_refusesWhatDoesNotFit: what libvirt or QEMU would refuse or round is refused before.
func TestNVDIMM_refusesWhatDoesNotFit(t *testing.T) {
	t.Parallel()
	for says, row := range map[string]Row{
		"a.path: It must be declared":             {"size": "4194304"},
		"a.path: ":                                {"path": "n", "size": "4194304"},
		"a.size: It must be declared":             {"path": "/n"},
		"a.size: It isn't a multiple of 1 MiB":    {"path": "/n", "size": "4195328"},
		"a.size: It isn't a multiple of the":      {"path": "/n", "size": "5242880", "align_size": "2097152"},
		"a.align_size: It isn't a power of two":   {"path": "/n", "size": "6291456", "align_size": "3145728"},
		"a.label_size: The label needs at least":  {"path": "/n", "size": "4194304", "label_size": "65536"},
		"a.label_size: The label doesn't fit":     {"path": "/n", "size": "4194304", "label_size": "4194304"},
		"a.node: cpu.numa has no such cell":       {"path": "/n", "size": "4194304", "node": "7"},
		"memory.max_size: The VM has 2048 MiB, a": {"path": "/n", "size": "2147483648"},
		"b.path: devices.nvdimms.a has the same":  {"path": "/srv/../b", "size": "4194304"},
	} {
		s := Spec{
			CPU: CPU{VCPUs: new(4)}, Values: Values{cpuNUMA: twoCells},
			NVDIMMs: map[string]Row{"a": row, "b": {"path": "/b", "size": "1048576"}},
			Memory:  Memory{Size: new(uint64(1 << 30)), MaxSize: new(uint64(2 << 30))},
		}
		if problems := s.Validate(); len(problems) != 1 || !strings.Contains(problems[0].Error(), says) {
			t.Errorf("%s: %v", says, problems)
		}
	}
	s := Spec{NVDIMMs: map[string]Row{"a": {"path": "/n", "size": "1048576"}}, Values: Values{acpi: "no"}}
	if problems := s.Validate(); len(problems) != 1 || !strings.Contains(problems[0].Error(), acpi) {
		t.Error(problems)
	}
}
