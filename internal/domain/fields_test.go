package domain

import (
	"maps"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/fieldtest"
)

// fullNetworkSource is a source with a value in every field, and for every row, whichever protocols support it.
func fullNetworkSource() NetworkSource {
	full := NetworkSource{
		Protocol: "rbd", Name: "vms/web", Hosts: []string{"a", "b"},
		Auth:   &SourceAuth{Username: "libvirt", Secret: luksSecret},
		Values: Values{},
	}
	for _, row := range NetworkRows {
		full.Values[row.Name] = map[AttributeKind]string{Text: "/a", Count: "7", Switch: "yes"}[row.Kind]
	}
	return full
}

// otherNetworkSources returns sources that differ in one field each.
func otherNetworkSources(t *testing.T) map[string]NetworkSource {
	t.Helper()
	all := fieldtest.Variants(t, fullNetworkSource())
	for path, variant := range all {
		for _, row := range NetworkRows {
			switch row.Kind { // Numbers and switches aren't texts like others.
			case Count:
				variant.Values[row.Name] = strings.Replace(variant.Values[row.Name], "7x", "8", 1)
			case Switch:
				variant.Values[row.Name] = strings.Replace(variant.Values[row.Name], "yesx", "no", 1)
			default:
			}
		}
		// What isn't declared is left alone; "" removes it.
		if name, ok := strings.CutSuffix(strings.TrimPrefix(path, "Values["), "] removed"); ok && name != path {
			variant.Values[name] = ""
		}
		all[path] = variant
	}
	delete(all, "Auth removed")
	return all
}

// Each part of a network source counts: a change of it is in the plan, and applied, and a change by hand is drift.
func TestNetworkSource_everyField(t *testing.T) {
	t.Parallel()
	spec := func(n NetworkSource) Spec {
		return Spec{Disks: map[string]Disk{"root": {Source: DiskSource{Network: &n}, ReadOnly: new(true)}}}
	}
	before := fullNetworkSource()
	for path, want := range otherNetworkSources(t) {
		if sameSource(DiskSource{Network: &before}, DiskSource{Network: &want}) {
			t.Errorf("%s: the sources are the same", path)
		}
		d, err := Parse(`<domain type='kvm'><name>web</name><devices><disk type='network' device='disk'>` +
			`<driver name='qemu' type='raw'/><source protocol='nbd' name='x'><host name='h' port='1'/></source>` +
			`<target dev='vda' bus='virtio'/><readonly/><alias name='ua-disk-root'/></disk></devices></domain>`)
		if err != nil {
			t.Fatal(err)
		}
		for _, declared := range []NetworkSource{before, want} {
			if len(Changes(d.Spec(), spec(declared))) == 0 {
				t.Errorf("%s: the plan has no change", path)
			}
			if err := d.Apply(spec(declared)); err != nil {
				t.Errorf("%s: %v", path, err)
			}
			if left := Changes(d.Spec(), spec(declared)); len(left) > 0 {
				t.Errorf("%s: after the apply, the plan still has %v", path, left)
			}
			is := *d.Spec().Disks["root"].Source.Network
			maps.DeleteFunc(declared.Values, func(_, value string) bool { return value == "" })
			if !reflect.DeepEqual(is, declared) {
				t.Errorf("%s: applied was %+v, read is %+v", path, declared, is)
			}
		}
	}
}

// The same image that is reached in another way keeps its snapshot, and the format that is not declared. Another image
// has neither.
func TestNetworkSource_sameImage(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		image string
		hosts []string
		keeps bool
	}{
		"one more monitor": {"vms/web", []string{"a:6789", "b:6789"}, true},
		"other monitors":   {"vms/web", []string{"b:6789"}, true},
		"another image":    {"vms/db", []string{"a:6789"}, false},
	} {
		d, err := Parse(`<domain type='kvm'><name>web</name><devices><disk type='network' device='disk'>` +
			`<driver name='qemu' type='qcow2'/><source protocol='rbd' name='vms/web'><host name='a' port='6789'/>` +
			`<snapshot name='base'/><slices><slice type='storage' offset='0' size='9'/></slices></source><backingStore/>` +
			`<target dev='vda' bus='virtio'/><readonly/><alias name='ua-disk-root'/></disk></devices></domain>`)
		if err != nil {
			t.Fatal(err)
		}
		if err := d.Apply(Spec{Disks: map[string]Disk{"root": {Source: DiskSource{Network: &NetworkSource{
			Protocol: "rbd", Name: test.image, Hosts: test.hosts,
		}}}}}); err != nil {
			t.Fatal(err)
		}
		xml, err := d.XML()
		if err != nil {
			t.Fatal(err)
		}
		for _, part := range []string{"<snapshot", "<slice ", "<backingStore", `type="qcow2"`} {
			if strings.Contains(xml, part) != test.keeps {
				t.Errorf("%s: %s is there: %v; want %v", name, part, !test.keeps, test.keeps)
			}
		}
	}
}

// Each field of a VM's record counts, and is written and read back.
func TestMetadata_everyField(t *testing.T) {
	t.Parallel()
	words := map[string]string{"a": "b"}
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	migration := Migration{Statistics: MigrationStatistics{}}
	fill(reflect.ValueOf(&migration).Elem(), at)
	own, copied, volume := OwnDisk{}, Copy{}, LeftVolume{}
	for _, v := range []any{&own, &copied, &volume} {
		fill(reflect.ValueOf(v).Elem(), at)
	}
	full := Metadata{
		Labels: words, RunStrategy: "Always", Host: "kvm1", TerminationGracePeriod: new(time.Minute),
		DeletionProtection: new(true), EvictionStrategy: "None", HostLabels: words, Avoids: words, Kept: []string{PartNVRAM},
		DedicatedCPUs: true, SharedDisks: []string{"root"}, OwnDisks: map[string]OwnDisk{"root": own}, Applied: words,
		ExtraDevices: words, DeviceClasses: words, Eviction: &Eviction{"kvm1", "u", "me", at}, Devices: words,
		Creating: &Creating{"me", "hash", at, true}, Restarting: &Restarting{"me", at, true},
		Starting: &Starting{"me", "u", at}, Deleting: &Deleting{"me", at}, Staged: Staged{"a": "b"},
		Unfinished: Staged{"a": "b"},
		FreshNVRAM: true, VariablesOf: "efi", Migrations: []Migration{migration},
		Copies: []Copy{copied}, LeftVolumes: []LeftVolume{volume}, Generation: 7, Newer: true,
	}
	all := fieldtest.Variants(t, full)
	delete(all, "Newer") // It is only read.
	for path, variant := range all {
		if sameMetadata(full, variant) || sameMetadata(variant, full) {
			t.Errorf("%s: the records are the same", path)
		}
	}
}

// fill gives every field of a struct a value.
func fill(v reflect.Value, at time.Time) {
	for i := range v.NumField() {
		switch f := v.Field(i); {
		case f.Type() == reflect.TypeFor[time.Time]():
			f.Set(reflect.ValueOf(at))
		case f.Kind() == reflect.Struct:
			fill(f, at)
		case f.Kind() == reflect.String:
			f.SetString("a")
		case f.Kind() == reflect.Bool:
			f.SetBool(true)
		case f.CanUint():
			f.SetUint(1)
		}
	}
}
