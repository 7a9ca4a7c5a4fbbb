package domain

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/beevik/etree"
	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// maybe draws a value or nothing.
func maybe[V any](t *rapid.T, label string, g *rapid.Generator[V]) *V {
	if !rapid.Bool().Draw(t, label+" declared") {
		return nil
	}
	return new(g.Draw(t, label))
}

// drawSpec draws a declaration for a VM that is as have says: some of it as it is, some of it changed.
func drawSpec(t *rapid.T, have Spec) Spec {
	counts := rapid.IntRange(1, 4)
	want := Spec{
		Name:          rapid.SampledFrom([]string{"", have.Name, "other"}).Draw(t, "name"),
		Type:          rapid.SampledFrom([]string{"", have.Type, "qemu"}).Draw(t, "type"),
		Machine:       rapid.SampledFrom([]string{"", have.Machine, machineFamily(have.Machine)}).Draw(t, "machine"),
		GuestAgent:    maybe(t, "agent", rapid.Bool()),
		SerialConsole: maybe(t, "console", rapid.Bool()),
	}
	want.CPU = CPU{
		Sockets:    maybe(t, "sockets", counts),
		Cores:      maybe(t, "cores", counts),
		Threads:    maybe(t, "threads", counts),
		MaxSockets: maybe(t, "max sockets", rapid.IntRange(1, 8)),
		Mode:       maybe(t, "mode", rapid.SampledFrom(CPUModes)),
	}
	if want.CPU.Sockets == nil {
		want.CPU.VCPUs = maybe(t, "vcpus", rapid.IntRange(1, 16))
	}
	if want.CPU.Mode == nil || *want.CPU.Mode == "custom" {
		want.CPU.Model = maybe(t, "model", rapid.SampledFrom([]string{"Nehalem", "Skylake-Server-IBRS", "qemu64"}))
	}
	sizes := rapid.Custom(func(t *rapid.T) uint64 { return rapid.Uint64Range(64, 1<<15).Draw(t, "MiB") * mib })
	want.Memory = Memory{Size: maybe(t, "size", sizes), MaxSize: maybe(t, "max size", sizes)}
	want.Firmware = Firmware{
		Type:       maybe(t, "firmware", rapid.SampledFrom(FirmwareTypes)),
		SecureBoot: maybe(t, "secure boot", rapid.Bool()),
	}
	kernels := []Kernel{{}, {Path: "/k"}, {Path: "/k", Initrd: "/i", Cmdline: "a b"}}
	want.Kernel = maybe(t, "kernel", rapid.SampledFrom(kernels))
	if rapid.Bool().Draw(t, "disks declared") {
		want.Disks = drawDisks(t, have.Disks)
	}
	if rapid.Bool().Draw(t, "interfaces declared") {
		want.Interfaces = drawInterfaces(t, have.Interfaces)
	}
	return want
}

var sources = []DiskSource{
	{File: "/new.qcow2"},
	{File: "/new.img"},
	{Block: "/dev/vg/new"},
	{Network: &NetworkSource{Protocol: "nbd", Name: "x", Hosts: []string{"[fd00::1]:10809"}}},
	{Network: &NetworkSource{Protocol: "rbd", Name: "p/i", Hosts: []string{"a:6789", "b:6789"}}},
}

func drawDisks(t *rapid.T, have map[string]Disk) map[string]Disk {
	want := map[string]Disk{}
	for _, key := range sortedKeys(have) {
		disk := have[key]
		if rapid.IntRange(0, 4).Draw(t, key+" removed") == 0 {
			continue
		}
		disk.Target = ""
		if rapid.Bool().Draw(t, key+" changed") {
			disk = Disk{
				Source:    rapid.SampledFrom(append([]DiskSource{disk.Source}, sources...)).Draw(t, "source"),
				Bus:       rapid.SampledFrom([]string{"", "virtio", "scsi", "sata", "usb"}).Draw(t, "bus"),
				Format:    rapid.SampledFrom([]string{"", "raw", "qcow2"}).Draw(t, "format"),
				Cache:     rapid.SampledFrom([]string{"", "default", "none", "writeback"}).Draw(t, "cache"),
				Serial:    maybe(t, "serial", rapid.SampledFrom([]string{"", "abc", " x "})),
				Device:    rapid.SampledFrom([]string{"", disk.Device}).Draw(t, "device"),
				BootOrder: maybe(t, "boot order", rapid.IntRange(1, 9)),
			}
		}
		want[key] = disk
	}
	for i := range rapid.IntRange(0, 3).Draw(t, "new disks") {
		want[fmt.Sprintf("new%d", i)] = Disk{
			Source: rapid.SampledFrom(sources).Draw(t, "source"),
			Bus:    rapid.SampledFrom([]string{"", "virtio", "scsi", "sata", "usb"}).Draw(t, "bus"),
			Device: rapid.SampledFrom([]string{"", "disk", "cdrom"}).Draw(t, "device"),
		}
	}
	return want
}

func drawInterfaces(t *rapid.T, have map[string]Interface) map[string]Interface {
	connections := []Interface{{Network: "n1"}, {Bridge: "b1"}, {User: true}}
	want := map[string]Interface{}
	for _, key := range sortedKeys(have) {
		nic := have[key]
		if rapid.IntRange(0, 4).Draw(t, key+" removed") == 0 {
			continue
		}
		nic.Target = ""
		if rapid.Bool().Draw(t, key+" changed") {
			nic = rapid.SampledFrom(append([]Interface{nic}, connections...)).Draw(t, "connection")
			nic.LinkUp = maybe(t, "link", rapid.Bool())
			nic.Model = rapid.SampledFrom([]string{"", "virtio", "e1000e"}).Draw(t, "model")
			nic.BootOrder = maybe(t, "boot order", rapid.IntRange(10, 19))
		}
		want[key] = nic
	}
	for i := range rapid.IntRange(0, 2).Draw(t, "new interfaces") {
		want[fmt.Sprintf("new%d", i)] = rapid.SampledFrom(connections).Draw(t, "connection")
	}
	return want
}

// missing lists what want declares and have doesn't say, without the code that decides it for users.
func missing(path string, have, want reflect.Value) []string {
	switch want.Interface().(type) {
	case DiskSource:
		a, _ := have.Interface().(DiskSource)
		b, _ := want.Interface().(DiskSource)
		if !b.isZero() && !sameSource(a, b) {
			return []string{fmt.Sprintf("%s: %v, not %v", path, a, b)}
		}
		return nil
	case Kernel:
		if !have.Equal(want) {
			return []string{path}
		}
		return nil
	}
	var found []string
	switch want.Kind() {
	case reflect.Struct:
		for i := range want.NumField() {
			name := want.Type().Field(i).Name
			observed := []string{"FreeSlots", "Buses", "Installed", "Fixed", "Full", "Target", "Expanded", "Backing"}
			if slices.Contains(observed, name) {
				continue
			}
			found = append(found, missing(path+"."+name, have.Field(i), want.Field(i))...)
		}
	case reflect.Map:
		if want.IsNil() {
			return nil
		}
		if have.Len() != want.Len() {
			found = append(found, fmt.Sprintf("%s: %v, not %v", path, have.MapKeys(), want.MapKeys()))
		}
		for _, key := range want.MapKeys() {
			if !have.MapIndex(key).IsValid() {
				found = append(found, path+"."+key.String())
				continue
			}
			found = append(found, missing(path+"."+key.String(), have.MapIndex(key), want.MapIndex(key))...)
		}
	case reflect.Pointer:
		switch {
		case want.IsNil():
		case have.IsNil():
			if !want.Elem().IsZero() {
				found = append(found, path)
			}
		default:
			found = missing(path, have.Elem(), want.Elem())
		}
	default:
		if want.IsZero() && want.Kind() != reflect.Bool {
			return nil
		}
		if want.Kind() == reflect.Bool && strings.HasSuffix(path, ".User") && !want.Bool() {
			return nil
		}
		a, b := strings.TrimSpace(fmt.Sprint(have)), strings.TrimSpace(fmt.Sprint(want))
		if strings.HasSuffix(path, ".Machine") && SameMachineType(a, b) ||
			strings.HasSuffix(path, ".Cache") && sameCache(a, b) {
			return nil
		}
		if a != b {
			found = append(found, fmt.Sprintf("%s: %s, not %s", path, a, b))
		}
	}
	return found
}

// mark adds an element and an attribute of a foreign namespace to every place that survives as long as its parent does.
func mark(d *Definition) {
	places := []*etree.Element{d.root()}
	for _, tag := range []string{"os", "features", "cpu", "metadata", "clock"} {
		if e := child(d.root(), tag); e != nil {
			places = append(places, e)
		}
	}
	places = append(places, d.devices()...)
	for i, e := range places {
		e.CreateAttr("xmlns:test", "urn:test")
		e.CreateAttr("test:mark", fmt.Sprint(i))
		m := e.CreateElement("test:mark")
		m.CreateAttr("id", markID(e, i))
	}
}

// markID says whose mark it is: a device that a declared map can remove, or anything else.
func markID(e *etree.Element, i int) string {
	if e.Tag == "disk" || e.Tag == "interface" || e.Tag == "serial" || e.Tag == "console" || e.Tag == "channel" {
		return fmt.Sprintf("removable-%s-%d", e.Tag, i)
	}
	return fmt.Sprintf("kept-%s-%d", e.Tag, i)
}

// marks returns the marks, each as element and attribute.
func marks(d *Definition) map[string]bool {
	found := map[string]bool{}
	for _, e := range d.root().FindElements("//test:mark") {
		parent := e.Parent()
		found[e.SelectAttrValue("id", "")] = parent.SelectAttr("test:mark") != nil
	}
	return found
}

func TestApply_saysWhatIsDeclaredAndKeepsTheRest(t *testing.T) {
	t.Parallel()
	all := samples(t)
	names := slices.Sorted(maps.Keys(all))
	rapid.Check(t, func(t *rapid.T) {
		name := rapid.SampledFrom(names).Draw(t, "sample")
		d, err := Parse(all[name])
		if err != nil {
			t.Fatal(err)
		}
		mark(d)
		before, kept := d.Canonical(), marks(d)
		have := d.Spec()
		want := drawSpec(t, have)
		if err := d.Apply(want); err != nil {
			if d.Canonical() != before {
				t.Fatalf("refused with %v, and changed", err)
			}
			return
		}
		after := d.Spec()
		if d.Live() {
			after.CPU.Mode, after.CPU.Model, want.CPU.Mode, want.CPU.Model = nil, nil, nil, nil
		}
		if m := missing("", reflect.ValueOf(after), reflect.ValueOf(want)); len(m) > 0 {
			t.Fatalf("not applied: %v", m)
		}
		if changes := Changes(after, want); len(changes) > 0 {
			t.Fatalf("still to be changed: %v", changes)
		}
		left := marks(d)
		for id := range kept {
			if !left[id] && strings.HasPrefix(id, "kept") {
				t.Fatalf("%s is gone", id)
			}
		}
		if want.Disks == nil && want.Interfaces == nil && want.SerialConsole == nil && want.GuestAgent == nil {
			if diff := cmp.Diff(kept, left); diff != "" {
				t.Fatal(diff)
			}
		}
		once := d.Canonical()
		if err := d.Apply(want); err != nil {
			t.Fatalf("applied again: %v", err)
		}
		if diff := cmp.Diff(once, d.Canonical()); diff != "" {
			t.Fatalf("applied again it changes:\n%s", diff)
		}
	})
}

func FuzzParse(f *testing.F) {
	for _, xml := range samples(f) {
		f.Add(xml)
	}
	f.Add("<domain/>")
	f.Add("<domain><vcpu>9</vcpu><cpu><topology sockets='9' dies='4294967296' cores='4294967296'/></cpu></domain>")
	f.Fuzz(func(t *testing.T, xml string) {
		d, err := Parse(xml)
		if err != nil {
			return
		}
		before := d.Canonical()
		_ = d.Metadata()
		_ = d.MetadataXML()
		if err := d.Apply(d.Spec()); err == nil && d.Canonical() != before {
			t.Errorf("its own spec changes it:\n%s", cmp.Diff(before, d.Canonical()))
		}
	})
}
