package domain_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/domain"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/domain/domaintest"
)

// TestApply_anythingThatIsValid: whatever is declared of a new VM is defined, and so is whatever is declared of it
// after that: nothing of it is left to be changed, and applied again it changes nothing.
func TestApply_anythingThatIsValid(t *testing.T) {
	t.Parallel()
	made, changed := 0, 0
	rapid.Check(t, func(t *rapid.T) {
		first := drawDeclared(t, domain.Spec{Name: "vm", Type: "kvm", Memory: domain.Memory{Size: new(uint64(1 << 30))}})
		d, err := domain.New(first, "6a9ae2dc-22f3-4d0c-a8d8-0a9b2f1dca10")
		if err != nil {
			return
		}
		made++
		checkDeclared(t, d, first)
		before := d.Canonical()
		second := drawDeclared(t, first)
		if err := d.Apply(second); err != nil {
			if d.Canonical() != before {
				t.Fatalf("refused with %v, and changed", err)
			}
			checkRefused(t, err, second)
			return
		}
		changed++
		checkDeclared(t, d, second)
	})
	if made == 0 || changed == 0 {
		t.Errorf("%d were made and %d changed: nothing was proven", made, changed)
	}
}

// checkRefused fails if a change to what a new VM can have is refused without the value that the VM has and that the
// user has to declare. A disk's bus and device stay, and the problem names them.
func checkRefused(t *rapid.T, refused error, want domain.Spec) {
	t.Helper()
	if _, err := domain.New(want, "6a9ae2dc-22f3-4d0c-a8d8-0a9b2f1dca10"); err != nil {
		return
	}
	for line := range strings.Lines(refused.Error()) {
		if !strings.HasPrefix(line, "disks.") && !strings.Contains(line, "Without a declaration, ") {
			t.Fatalf("refused, although a new VM can have it: %s", line)
		}
	}
}

func checkDeclared(t *rapid.T, d *domain.Definition, want domain.Spec) {
	t.Helper()
	if left := domain.Changes(d.Spec(), want); len(left) > 0 {
		t.Fatalf("still to be changed: %v in\n%s", left, d.Canonical())
	}
	once := d.Canonical()
	if err := d.Apply(want); err != nil {
		t.Fatalf("applied again: %v", err)
	}
	if diff := cmp.Diff(once, d.Canonical()); diff != "" {
		t.Fatalf("applied again it changes:\n%s", diff)
	}
}

var (
	drawnDisks = []domain.Disk{
		{Source: domain.DiskSource{File: "/a.qcow2"}},
		{Source: domain.DiskSource{Block: "/dev/sdb"}},
		{Source: domain.DiskSource{Block: "/dev/sdc"}, Device: "lun", Bus: "scsi"},
		{Source: domain.DiskSource{Network: &domain.NetworkSource{Protocol: "nbd", Name: "a", Hosts: []string{"h:1"}}}},
		{Source: domain.DiskSource{Network: &domain.NetworkSource{Protocol: "rbd", Name: "p/i", Hosts: []string{"h"}}}},
		{Source: domain.DiskSource{Network: &domain.NetworkSource{Protocol: "https", Name: "i", Hosts: []string{"h"}}}},
		{Device: "cdrom"},
		{Device: "floppy"},
	}
	drawnInterfaces = []domain.Interface{
		{Network: "lan"},
		{Bridge: "br0"},
		{User: true},
		{Direct: "eth0", DirectMode: "vepa"},
		{HostDevice: "0000:65:00.2"},
		{VDPA: "/dev/vhost-vdpa-0"},
		{VHostUser: "/run/a.sock", VHostUserMode: "server"},
	}
)

// drawDeclared draws changes of what is declared, as far as it stays valid.
func drawDeclared(t *rapid.T, spec domain.Spec) domain.Spec {
	for range rapid.IntRange(0, 12).Draw(t, "changes") {
		drawn := spec
		switch rapid.IntRange(0, 4).Draw(t, "what") {
		case 0:
			drawn.Disks = drawDevice(t, spec.Disks, drawnDisks, func(disk *domain.Disk) {
				disk.Values = drawRow(t, disk.Values, domain.DiskRows)
				if from := disk.Source.Network; from != nil && rapid.Bool().Draw(t, "of the source") {
					network := *from
					network.Values = drawRow(t, from.Values, domain.NetworkRows)
					disk.Source.Network = &network
				}
			})
		case 1:
			drawn.Interfaces = drawDevice(t, spec.Interfaces, drawnInterfaces, func(nic *domain.Interface) {
				nic.Values = drawRow(t, nic.Values, domain.InterfaceRows)
			})
		case 2, 3:
			f := rapid.SampledFrom(domain.Families).Draw(t, "family")
			f.Declare(&drawn, drawDevice(t, f.Of(spec), []domain.Row{{}}, func(row *domain.Row) {
				for range rapid.IntRange(1, 3).Draw(t, "rows of it") {
					*row = domain.Row(drawRow(t, domain.Values(*row), f.Attributes))
				}
			}))
		default:
			g := rapid.SampledFrom(domain.Groups).Draw(t, "group")
			of := slices.Clone(g.Attributes)
			for i, a := range of {
				of[i].Name = g.At(a)
			}
			for range rapid.IntRange(1, 3).Draw(t, "rows of it") {
				drawn.Values = drawRow(t, drawn.Values, of)
			}
		}
		if len(drawn.Validate()) == 0 {
			spec = drawn
		}
	}
	return spec
}

// drawDevice removes a device, or changes one or a new one.
func drawDevice[V any](t *rapid.T, have map[string]V, kinds []V, change func(*V)) map[string]V {
	all := maps.Clone(have)
	if all == nil {
		all = map[string]V{}
	}
	key := fmt.Sprint("key", rapid.IntRange(0, 2).Draw(t, "key"))
	device, there := all[key]
	switch {
	case there && rapid.IntRange(0, 3).Draw(t, "is removed") == 0:
		delete(all, key)
		return all
	case !there, rapid.IntRange(0, 3).Draw(t, "is replaced") == 0:
		device = rapid.SampledFrom(kinds).Draw(t, "kind")
	}
	change(&device)
	all[key] = device
	return all
}

// drawRow declares a row, or declares it no longer.
func drawRow(t *rapid.T, have domain.Values, of []domain.Attribute) domain.Values {
	values := maps.Clone(have)
	if values == nil {
		values = domain.Values{}
	}
	a := rapid.SampledFrom(of).Draw(t, "row")
	if delete(values, a.Name); rapid.IntRange(0, 5).Draw(t, "is declared") > 0 {
		drawn := slices.Clone(domaintest.Values(a))
		switch a.Kind {
		case domain.Text:
			if a.Values == nil && !a.Filled {
				drawn = append(drawn, "") // Elsewhere "" declares nothing, and isn't passed on.
			}
		case domain.Count, domain.Amount:
			if a.Zero {
				drawn = append(drawn, "0")
			}
		case domain.Numbers, domain.Words, domain.Texts, domain.Switches, domain.Table:
			drawn = append(drawn, "")
		case domain.Switch, domain.Flag:
		}
		values[a.Name] = rapid.SampledFrom(drawn).Draw(t, a.Name)
	}
	return values
}
