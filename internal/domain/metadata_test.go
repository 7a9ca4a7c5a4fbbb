package domain

import (
	"errors"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func allMetadata() Metadata {
	return Metadata{
		Labels:                 map[string]string{"app": "web", "tier": " <prod> & \"more\" "},
		RunStrategy:            "Always",
		Host:                   "kvm1",
		TerminationGracePeriod: new(3 * time.Minute),
		DeletionProtection:     new(false),
		Devices:                map[string]string{"vda": "root", "52:54:00:00:00:01": "lan"},
		EvictionStrategy:       "LiveMigrate",
		HostLabels:             map[string]string{"zone": "a"},
		Avoids:                 map[string]string{"app": "web"},
		SharedDisks:            []string{"data", "root"},
		OwnDisks: map[string]OwnDisk{
			"root": {
				Pool: "vms", Image: "vms/debian-0123", Clone: CloneFull, Bytes: 1 << 30, OnDestroy: OnDestroyKeep,
				Volume: "web-root", Path: "/srv/vms/web & root", HostUUID: "0f", Creating: true,
			},
			"logs": {Pool: "vms", Volume: "web-logs", Content: "c0", Removing: true, SeenIn: "2049:2"},
		},
		Applied: map[string]string{"root": "/srv/vms/web & root", "net": "nbd:disk1@10.0.0.1:10809"},
		Eviction: &Eviction{
			Host: "kvm1", HostUUID: "0f", Owner: "me@here", Since: time.Date(2024, 2, 29, 12, 0, 0, 0, time.UTC),
		},
		Creating: &Creating{
			Owner: "me@here", SpecHash: "abc", Since: time.Date(2024, 2, 29, 12, 0, 0, 0, time.UTC),
		},
		Restarting: &Restarting{Owner: "me@here", Since: time.Date(2024, 2, 29, 12, 0, 0, 0, time.UTC), Forced: true},
		Starting:   &Starting{Owner: "me@here", HostUUID: "0f", Since: time.Date(2024, 2, 29, 12, 0, 0, 0, time.UTC)},
		Deleting:   &Deleting{Owner: "me@here", Since: time.Date(2024, 2, 29, 12, 0, 0, 0, time.UTC)},
		Staged:     Staged{"cpu.mode": "def"},
		Unfinished: Staged{"title": "abc"},
		FreshNVRAM: true, VariablesOf: "efi", DedicatedCPUs: true, Kept: []string{PartNVRAM, PartSnapshots},
		Migrations: []Migration{failedMigration(), {SourceHost: "kvm1", Start: migrationStart}},
		Copies: []Copy{
			{Host: "kvm2", HostUUID: "u", Path: "/a & b", FromUUID: "f"},
			{Host: "kvm2", Path: "/c"},
			{Host: "kvm2", HostUUID: "u", Path: "/d", FromUUID: "f", Creating: true, Bytes: 4711},
			{Host: "kvm2", Path: "/e", Creating: true},
		},
		LeftVolumes: []LeftVolume{
			{Host: "kvm2", HostUUID: "u", Pool: "p", Volume: "v & w", Path: "/a & b"},
			{Host: "kvm2", HostUUID: "u", Pool: "p", Volume: "x", Path: "/x", Creating: true},
		},
	}
}

func TestMetadata_isReadAsWritten(t *testing.T) {
	t.Parallel()
	for name, xml := range samples(t) {
		d := parse(t, xml)
		if err := d.SetMetadata(allMetadata()); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		again := parse(t, output(t, d))
		if diff := cmp.Diff(allMetadata(), again.Metadata()); diff != "" {
			t.Errorf("%s: -want +got:\n%s", name, diff)
		}
		before := output(t, again)
		if err := again.SetMetadata(allMetadata()); err != nil || output(t, again) != before {
			t.Errorf("%s: written again it changes: %v", name, err)
		}
	}
}

func TestMetadata_zeroRemovesTheElement(t *testing.T) {
	t.Parallel()
	d := sample(t, "virt-install-q35")
	before := output(t, d)
	for _, m := range []Metadata{allMetadata(), {}} {
		if err := d.SetMetadata(m); err != nil {
			t.Fatal(err)
		}
	}
	if diff := cmp.Diff(before, output(t, d)); diff != "" {
		t.Errorf("something is left:\n%s", diff)
	}
}

func TestMetadata_keepsWhatItDoesNotKnow(t *testing.T) {
	t.Parallel()
	d := sample(t, "strange")
	want := Metadata{
		Labels: map[string]string{"app": "web"}, Host: "kvm1",
		Devices: map[string]string{"vda": "root", "52:54:00:ff:00:02": "lan"},
	}
	if diff := cmp.Diff(want, d.Metadata()); diff != "" {
		t.Fatalf("-want +got:\n%s", diff)
	}
	for _, m := range []Metadata{allMetadata(), {}} {
		if err := d.SetMetadata(m); err != nil {
			t.Fatal(err)
		}
		xml := output(t, d)
		for _, part := range []string{
			`v:mark="kept"`, `<v:future depth="2"><v:more/>`, `<foreign xmlns="urn:foreign" a="b"/>`, "ours is elsewhere",
		} {
			if !strings.Contains(xml, part) {
				t.Errorf("%s is gone", part)
			}
		}
	}
}

func TestMetadata_ofANewerVersionIsReadOnly(t *testing.T) {
	t.Parallel()
	d := parse(t, `<domain><metadata>
		<vm xmlns="urn:virtfleet:1" version="2"><host>h</host></vm>
	</metadata></domain>`)
	if m := d.Metadata(); !m.Newer || m.Host != "h" {
		t.Errorf("read: %v %s", m.Newer, m.Host)
	}
	before := output(t, d)
	if err := d.SetMetadata(allMetadata()); !errors.Is(err, ErrNewerMetadata) || output(t, d) != before {
		t.Errorf("written: %v", err)
	}
}

// TestMetadata_ofAnotherVM: the definition of a VM that was copied by hand has the metadata of the original. Nothing in
// it is the copy's, and what is written next is the copy's alone. Metadata that doesn't say whose it is isn't read.
func TestMetadata_ofAnotherVM(t *testing.T) {
	t.Parallel()
	original := sample(t, "virt-install-q35")
	if err := original.SetMetadata(allMetadata()); err != nil {
		t.Fatal(err)
	}
	started := Spec{UUID: original.UUID(), Started: Values{"title": "a"}, Held: []string{"disks.a"}}.RunXML()
	xml := strings.Replace(output(t, original), "</metadata>",
		strings.Replace(started, "<run", `<run xmlns="`+RunNamespace+`"`, 1)+"</metadata>", 1)
	if spec := parse(t, xml).Spec(); len(spec.Started) == 0 || len(spec.Held) == 0 {
		t.Fatalf("the original was started with %v, and holds %v", spec.Started, spec.Held)
	}
	const id = "6f0c1a52-7f0e-4d6e-9a3b-0c1d2e3f4a5b"
	d := parse(t, strings.Replace(xml, "<uuid>"+original.UUID(), "<uuid>"+id, 1))
	if diff := cmp.Diff(Metadata{}, d.Metadata()); diff != "" {
		t.Errorf("the copy has metadata: %s", diff)
	}
	if spec := d.Spec(); len(spec.Started) > 0 || len(spec.Held) > 0 || len(d.recordedNames()) > 0 {
		t.Errorf("the copy was started with %v, holds %v, has %v", spec.Started, spec.Held, d.recordedNames())
	}
	own := Metadata{Labels: map[string]string{"app": "copy"}, Generation: 1}
	if err := d.SetMetadata(own); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(own, parse(t, output(t, d)).Metadata()); diff != "" {
		t.Errorf("-written +read: %s", diff)
	}
}

// libvirt wants the element without our prefix, and puts it on by itself.
func TestMetadataXML(t *testing.T) {
	t.Parallel()
	d := sample(t, "strange")
	got := d.MetadataXML()
	if strings.Contains(got, "<v:") || strings.Contains(got, `xmlns="urn:virtfleet:1"`) {
		t.Errorf("still prefixed: %s", got)
	}
	if !strings.Contains(got, `<label key="app" value="web"/>`) || !strings.Contains(got, `xmlns="urn:foreign"`) {
		t.Errorf("incomplete: %s", got)
	}
	if got := sample(t, "minimal").MetadataXML(); got != "" {
		t.Errorf("of nothing: %s", got)
	}
}

// A guide shows other tools the element with which a drain asks them to move a VM.
func TestMetadataXML_asksToLeaveAsTheGuideSays(t *testing.T) {
	t.Parallel()
	guide, err := os.ReadFile("../../templates/guides/external-eviction.md")
	if err != nil {
		t.Fatal(err)
	}
	_, shown, _ := strings.Cut(string(guide), "```xml\n")
	shown, _, _ = strings.Cut(shown, "```")
	d := parse(t, `<domain><name>web</name><uuid>6f0c1a52-7f0e-4d6e-9a3b-0c1d2e3f4a5b</uuid></domain>`)
	if err := d.SetMetadata(Metadata{Eviction: &Eviction{
		Host: "kvm1", HostUUID: "4c4c4544-0043-4a10-8056-b4c04f4d3132", Owner: "alice@desk (pid 4711)",
		Since: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC),
	}}); err != nil {
		t.Fatal(err)
	}
	between := regexp.MustCompile(`>\s+<`)
	if diff := cmp.Diff(between.ReplaceAllString(strings.TrimSpace(shown), "><"),
		between.ReplaceAllString(strings.TrimSpace(d.MetadataXML()), "><")); diff != "" {
		t.Errorf("-guide +written:\n%s", diff)
	}
}

// TestEviction_leaves: a host that has another name by now is still the one to leave, and another host that has the old
// name isn't. A request without a UUID is known by the name.
func TestEviction_leaves(t *testing.T) {
	t.Parallel()
	of := func(host, uuid string) *Eviction { return &Eviction{Host: host, HostUUID: uuid} }
	for what, c := range map[string]struct {
		e          *Eviction
		host, uuid string
		want       bool
	}{
		"no request":                {nil, "kvm1", "1", false},
		"the same":                  {of("kvm1", "1"), "kvm1", "1", true},
		"renamed":                   {of("kvm1", "1"), "kvm9", "1", true},
		"another host of that name": {of("kvm1", "1"), "kvm1", "2", false},
		"no UUID is recorded":       {of("kvm1", ""), "kvm1", "1", true},
		"the host has no UUID":      {of("kvm1", "1"), "kvm1", "", true},
		"another host":              {of("kvm1", ""), "kvm2", "1", false},
	} {
		if got := c.e.Leaves(c.host, c.uuid); got != c.want {
			t.Errorf("%s: %t, want %t", what, got, c.want)
		}
	}
}

func TestSpecHash(t *testing.T) {
	t.Parallel()
	a, b := full(), full()
	b.UUID, b.FreeSlots, b.Memory.Installed = "other", nil, nil
	disk("root", func(d *Disk) { d.Target = "" })(&b)
	if SpecHash(a) != SpecHash(b) {
		t.Error("observed facts count")
	}
	if a.Disks["root"].Target == "" {
		t.Error("hashing has changed the spec")
	}
	b.Memory.Size = new(uint64(1))
	if SpecHash(a) == SpecHash(b) || len(SpecHash(a)) != 64 {
		t.Error("declared facts don't count")
	}
}
