package fleet

import (
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/domain"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/domain/domaintest"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/inventory"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/placement"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/lab"
)

// declared is what one host has for the VMs of TestLab_whatPassesThePlanIsDefined.
type declared struct {
	name, host string
	files      []string
}

// maybe draws a value, or what stands for none.
func maybe[V any](t *rapid.T, label string, values ...V) V {
	var none V

	// More often than not it isn't declared: of too much at once, something is refused.
	if rapid.IntRange(0, 2).Draw(t, label+" declared") > 0 {
		return none
	}

	return rapid.SampledFrom(values).Draw(t, label)
}

// draw draws what a configuration may declare of one VM, sensible or not.
func (d declared) draw(t *rapid.T) placement.Desired {
	size := rapid.Uint64Range(16, 96).Draw(t, "MiB") << 20
	spec := domain.Spec{
		Name: d.name, Type: "qemu",
		Machine:    maybe(t, "machine", "q35", "pc", "microvm", "pc-q35-7.0", "isapc"),
		Memory:     domain.Memory{Size: &size},
		GuestAgent: maybe(t, "agent", new(true), new(false)), SerialConsole: maybe(t, "console", new(true), new(false)),
		Firmware: domain.Firmware{
			Type: maybe(t, "firmware", new("bios"), new("efi")), SecureBoot: maybe(t, "secure boot", new(true), new(false)),
		},
		Kernel: maybe(t, "kernel", &domain.Kernel{Path: d.files[0]},
			&domain.Kernel{Path: d.files[0], Initrd: d.files[0], Cmdline: "a  b "}),
	}
	spec.CPU = domain.CPU{
		Cores: maybe(t, "cores", new(1), new(2)), Threads: maybe(t, "threads", new(1), new(2)),
		MaxSockets: maybe(t, "max sockets", new(1), new(3)),
		Mode:       maybe(t, "mode", new("host-model"), new("maximum"), new("custom"), new("host-passthrough")),
		Model:      maybe(t, "model", new("Nehalem"), new("qemu64"), new("Nonsense")),
	}

	if rapid.Bool().Draw(t, "more memory") {
		spec.Memory.MaxSize = new(size + rapid.Uint64Range(0, 512).Draw(t, "more MiB")<<20)
	}

	if spec.CPU.Cores == nil && spec.CPU.Threads == nil {
		spec.CPU.VCPUs = maybe(t, "vcpus", new(1), new(2), new(5))
	}

	if rapid.Bool().Draw(t, "disks declared") {
		spec.Disks = d.drawDisks(t)
	}

	if rapid.Bool().Draw(t, "interfaces declared") {
		spec.Interfaces = map[string]domain.Interface{}

		for i := range rapid.IntRange(0, 2).Draw(t, "interfaces") {
			nic := rapid.SampledFrom([]domain.Interface{
				{Network: "default"},
				{User: true},
				{Bridge: "virbr0"},
				{Direct: "lo", DirectMode: "bridge"},
				{VHostUser: "/run/switch.sock", VHostUserMode: "client"},
			}).Draw(t, "connection")
			nic.Model = maybe(t, "model", domain.InterfaceModels...)
			nic.LinkUp = maybe(t, "link", new(true), new(false))
			nic.BootOrder = maybe(t, "boot order", new(3), new(4))
			nic.Values = drawRows(t, 1, domain.InterfaceRows)
			nic.MAC = maybe(t, "mac", "52:54:00:00:00:01", "52:54:00:00:00:0A")
			spec.Interfaces[fmt.Sprintf("net%d", i)] = nic
		}
	}

	var rows []domain.Attribute

	for _, g := range domain.Groups {
		for _, a := range g.Attributes {
			a.Name = g.At(a)
			rows = append(rows, a)
		}
	}

	spec.Values = drawRows(t, 3, rows)

	if n := rapid.IntRange(0, 3*len(domain.Families)).Draw(t, "family"); n < len(domain.Families) {
		f := domain.Families[n]
		f.Declare(&spec, map[string]domain.Row{"a": domain.Row(drawRows(t, 4, f.Attributes))})
	}

	return placement.Desired{
		Spec: spec, UpdatePolicy: placement.PolicyRestart,
		Metadata: domain.Metadata{RunStrategy: "Halted", Host: d.host, Labels: map[string]string{"a": "b"}},
	}
}

// drawRows draws what is declared of a few rows.
func drawRows(t *rapid.T, most int, rows []domain.Attribute) domain.Values {
	facts := domain.Values{}

	for range rapid.IntRange(0, most).Draw(t, "rows") {
		a := rapid.SampledFrom(rows).Draw(t, "row")
		facts[a.Name] = rapid.SampledFrom(domaintest.Values(a)).Draw(t, a.Name)
	}

	return facts
}

func (d declared) drawDisks(t *rapid.T) map[string]domain.Disk {
	disks := map[string]domain.Disk{}
	free := d.files

	for i := range rapid.IntRange(0, 2).Draw(t, "disks") {
		network := drawRows(t, 1, domain.NetworkRows)
		sources := []domain.DiskSource{
			{},
			{File: free[0]},
			{Network: &domain.NetworkSource{Protocol: "nbd", Name: "x", Hosts: []string{"[fd00::1]:10809"}, Values: network}},
			{Network: &domain.NetworkSource{Protocol: "rbd", Name: "p/i", Hosts: []string{"a", "b:6789"}}},
			{Network: &domain.NetworkSource{Protocol: "http", Name: "i.iso", Hosts: []string{"a"}, Values: network}},
			{Network: &domain.NetworkSource{Protocol: "https", Name: "i.iso", Hosts: []string{"a"}, Values: network}},
		}
		free = free[1:]
		disks[fmt.Sprintf("disk%d", i)] = domain.Disk{
			Source:    rapid.SampledFrom(sources).Draw(t, "source"),
			Device:    maybe(t, "device", domain.DiskDevices...),
			Bus:       maybe(t, "bus", domain.DiskBuses...),
			Format:    maybe(t, "format", "raw", "qcow2"),
			Cache:     maybe(t, "cache", domain.DiskCaches...),
			Serial:    maybe(t, "serial", new(""), new("abc"), new(" a b "), new(strings.Repeat("x", 30))),
			ReadOnly:  maybe(t, "read only", new(true), new(false)),
			BootOrder: maybe(t, "boot order", new(1), new(2)),
			Values:    drawRows(t, 1, domain.DiskRows),
		}
	}

	return disks
}

// refusedByPlan says whether the plan refuses it.
func refusedByPlan(t *rapid.T, problems []inventory.Problem, err error) bool {
	if err != nil {
		t.Fatalf("the plan fails: %v", err)
	}

	for _, p := range problems {
		if !p.Warning {
			return true
		}
	}

	return false
}

// Whatever passes validation and the plan is defined as it says, is left alone after that, and is changed to whatever
// else passes: a real libvirt finds no fault that the plan had not found.
func TestLab_whatPassesThePlanIsDefined(t *testing.T) {
	t.Parallel()

	l := lab.Open(t)
	d := declared{name: lab.Name(t), host: "kvm2"}
	f := labFleet(t, l, t.Name(), nil)

	for i := range 3 {
		d.files = append(d.files, l.Image(t, d.host, fmt.Sprintf("%s-%d.qcow2", d.name, i), "qcow2", 1<<20))
	}

	l.RemoveDomain(t, d.name)

	passed, changed := 0, 0

	rapid.Check(t, func(rt *rapid.T) {
		ctx := t.Context()
		want := d.draw(rt)

		if len(want.Spec.Validate()) > 0 {
			return
		}

		problems, err := f.CheckCreate(ctx, want)
		if refusedByPlan(rt, problems, err) {
			return
		}

		vm, err := f.Create(ctx, want)
		if err != nil {
			rt.Fatalf("created: %v", err)
		}

		defer func() {
			if _, err := f.Delete(ctx, vm.UUID, lastOf(vm), 0); err != nil {
				rt.Fatalf("deleted: %v", err)
			}
		}()

		passed++

		is := func(vm *inventory.VM, what string) {
			if err := f.FinishCreate(ctx, vm); err != nil {
				rt.Fatal(err)
			}

			now, err := f.FindNow(ctx, vm.UUID, lastOf(vm))
			if err != nil {
				rt.Fatal(err)
			}

			if left := domain.Changes(*now.PersistentSpec, want.Spec); len(left) > 0 {
				rt.Fatalf("%s, and still to be changed: %s", what, domain.ListChanges(left))
			}
		}
		is(vm, "created")

		// Most of what is drawn is refused, so that several changes are drawn.
		for try := 1; ; try++ {
			want = d.draw(rt)
			want.Spec.Machine, want.Spec.Type = "", ""

			if len(want.Spec.Validate()) == 0 {
				problems, err = f.CheckUpdate(ctx, vm.UUID, lastOf(vm), want)
				if !refusedByPlan(rt, problems, err) {
					break
				}
			}

			if try == 10 {
				return
			}
		}

		if vm, err = f.Update(ctx, vm.UUID, lastOf(vm), want); err != nil {
			rt.Fatalf("changed: %v", err)
		}

		changed++

		is(vm, "changed")
	})

	if passed == 0 || changed == 0 {
		t.Errorf("%d were created and %d changed: nothing was proven", passed, changed)
	}

	t.Logf("%d were created and %d changed", passed, changed)
}

// What the host's libvirt, QEMU or machine type can't do fails the plan, in libvirt's words.
func TestLab_whatTheHostCannotDoFailsThePlan(t *testing.T) {
	t.Parallel()

	l := lab.Open(t)
	f := labFleet(t, l, t.Name(), nil)

	for name, tt := range map[string]struct {
		change func(*domain.Spec)
		want   string
	}{
		"ide on q35": {func(s *domain.Spec) {
			s.Disks = map[string]domain.Disk{"cd": {Device: "cdrom", Bus: "ide"}}
		}, `"q35" has no IDE`},
		"a NIC that is no PCI device": {func(s *domain.Spec) {
			s.Interfaces = map[string]domain.Interface{"net": {User: true, Model: "usb-net"}}
		}, "PCI bus"},
		"a secret that it lacks": {func(s *domain.Spec) {
			s.Disks = map[string]domain.Disk{"root": {Source: domain.DiskSource{Network: &domain.NetworkSource{
				Protocol: "rbd", Name: "p/i", Hosts: []string{"h"},
				Auth: &domain.SourceAuth{Username: "u", Secret: "6a9ae2dc-22f3-4d0c-a8d8-0a9b2f1dca11"},
			}}}}
		}, "no secret 6a9ae2dc-22f3-4d0c-a8d8-0a9b2f1dca11"},
		"an unknown CPU model": {func(s *domain.Spec) {
			s.CPU = domain.CPU{Mode: new("custom"), Model: new("Nonsense")}
		}, "Nonsense"},
	} {
		d := light(t, l, "refused", nil)
		d.Metadata.Host = "kvm1"
		tt.change(&d.Spec)

		problems, err := f.CheckCreate(t.Context(), d)
		if err != nil || len(problems) != 1 || problems[0].Warning || !strings.Contains(problems[0].Detail, tt.want) {
			t.Errorf("%s: %+v, %v; want to be told of %q", name, problems, err, tt.want)
		}
	}
}
