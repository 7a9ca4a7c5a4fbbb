package placement

import (
	"fmt"
	"strings"
	"testing"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/domain"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/inventory"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/libvirt"
)

// TestPlanStart: what each of several VMs could have alone is compared with what the others get.
func TestPlanStart(t *testing.T) {
	t.Parallel()

	pinned := func(dedicated bool) domain.HostUse {
		d, err := domain.Parse(`<domain type='qemu'><name>v</name><os><type>hvm</type></os><vcpu>1</vcpu>` +
			`<cputune><vcpupin vcpu='0' cpuset='2'/></cputune></domain>`)
		if err != nil {
			t.Fatal(err)
		}

		return d.Spec().HostUse().WithMetadata(domain.Metadata{DedicatedCPUs: dedicated})
	}
	having := func(host, file string, shareable bool) plannedStart {
		return plannedStart{host: host, disks: []domain.DiskUse{{
			Key: "root", Source: domain.DiskSource{File: file}, Shareable: shareable,
		}}}
	}
	running := func(s plannedStart) plannedStart {
		s.runs = true

		return s
	}
	off := func(s plannedStart) plannedStart {
		s.off, s.added = true, s.disks

		return s
	}
	web := map[string]string{"app": "web"}
	gib := func(n uint64) reservation { return reservation{bytes: n << 30} }
	at := func(host string, r reservation) plannedStart { return plannedStart{host: host, reservation: r} }

	for name, test := range map[string]struct {
		first, second plannedStart
		want          string
	}{
		"memory for both":   {at("kvm00", gib(30)), at("kvm00", gib(30)), ""},
		"memory for one":    {at("kvm00", gib(40)), at("kvm00", gib(40)), "24064Mi"},
		"memory on another": {at("kvm01", gib(40)), at("kvm00", gib(40)), ""},
		"memory for none":   {at("kvm00", gib(1)), at("kvm00", gib(65)), ""},
		"memory somewhere":  {at("", gib(40)), at("kvm00", gib(40)), ""},
		"a CPU": {
			at("kvm00", reservation{use: pinned(false)}), at("kvm00", reservation{use: pinned(true), uuid: "off"}), "CPU 2",
		},
		"a CPU for both": {at("kvm00", reservation{use: pinned(false)}), at("kvm00", reservation{use: pinned(false)}), ""},
		"a neighbour": {
			at("kvm00", reservation{labels: web}), at("kvm00", reservation{avoids: web}), "must not share a host",
		},
		"a disk": {
			having("kvm00", "/d", false), having("kvm00", "/d", true), "one disk",
		},
		"a shareable disk": {
			having("kvm00", "/d", true), having("kvm00", "/d", true), "",
		},
		"a disk of one that runs":  {running(having("kvm00", "/d", false)), having("kvm00", "/d", false), "is to have it"},
		"a disk for one that runs": {having("kvm00", "/d", false), running(having("kvm00", "/d", false)), "will be started"},
		"one that runs has what it needs": {
			running(at("kvm00", reservation{})), at("kvm00", gib(60)), "",
		},
		"a new disk of two that are off": {
			off(having("kvm00", "/d", false)), off(having("kvm00", "/d", false)), "gets it at the same time",
		},
		"a shareable one of two that are off": {off(having("kvm00", "/d", true)), off(having("kvm00", "/d", true)), ""},
		"a new volume of two that are off": {
			off(having("", "vms/d", false)), off(having("", "vms/d", false)), "gets it at the same time",
		},
		"what one that is off gets and the other has": {having("kvm00", "/d", false), off(having("kvm00", "/d", false)), ""},
		"files of two hosts": {
			having("kvm01", "/d", false), having("kvm00", "/d", false), "",
		},
	} {
		p, all, _ := spread()
		// The first one is defined there already, and off.
		all[0].View.Domains["first"] = inventory.NewEntry(libvirt.Domain{
			Name: "first", UUID: "first", State: libvirt.Shutoff,
			PersistentXML: `<domain type='qemu'><name>first</name><os><type>hvm</type></os></domain>`,
		})

		if problems := p.planStart(t.Context(), all[0], "first", test.first); len(problems) > 0 {
			t.Errorf("%s: of the first: %+v", name, problems)
		}

		for range 2 { // A change is planned again before it is made.
			problems := p.planStart(t.Context(), all[0], "second", test.second)
			if (len(problems) == 1) != (test.want != "") || len(problems) > 1 {
				t.Errorf("%s: %+v", name, problems)
			}

			for _, problem := range problems {
				if !strings.Contains(problem.Detail, test.want) || !strings.Contains(problem.Detail, `"first"`) ||
					!problem.Warning {
					t.Errorf("%s: %+v, want %q", name, problem, test.want)
				}
			}
		}
	}
}

// TestPlanUpdate_movedDisk: a disk that one plan takes from a VM and gives to another one isn't a disk of both, and a
// VM that is renamed or replaced isn't two. A disk that both declare is reported.
func TestPlanUpdate_movedDisk(t *testing.T) {
	t.Parallel()

	disk := func(file string) domain.Disk { return domain.Disk{Source: domain.DiskSource{File: file}} }
	declared := func(name string, disks map[string]domain.Disk) Desired {
		return Desired{Spec: domain.Spec{Name: name, Disks: disks}}
	}
	both := map[string]domain.Disk{"root": disk("/root"), "data": disk("/data")}

	for name, test := range map[string]struct {
		first    Desired
		own      string
		reported bool
	}{
		"kept":        {first: declared("first", both), reported: true},
		"undeclared":  {first: declared("first", nil), reported: true},
		"moved":       {first: declared("first", map[string]domain.Disk{"root": disk("/root")})},
		"another key": {first: declared("first", map[string]domain.Disk{"other": disk("/data")}), reported: true},
		"incomplete":  {first: Desired{Incomplete: true, Spec: domain.Spec{Disks: map[string]domain.Disk{}}}, reported: true},
		"a volume to be found": {
			first: Desired{
				Spec:    domain.Spec{Disks: map[string]domain.Disk{"data": {}}},
				Volumes: map[string]string{"data": "vms/data"},
			}, reported: true,
		},
		"replaced": {first: declared("first", both), own: "first-uuid"},
	} {
		p, all, _ := spread()
		on := all[0]
		vm := &inventory.VM{
			On: on.Host, Host: on.Host.Name,
			Entry: inventory.NewEntry(libvirt.Domain{
				Name: "first", UUID: "first-uuid", State: libvirt.Shutoff,
				PersistentXML: `<domain type='qemu'><name>first</name><os><type>hvm</type></os><devices>
<disk type='file' device='disk'><source file='/root'/><target dev='vda'/><alias name='ua-disk-root'/></disk>
<disk type='file' device='disk'><source file='/data'/><target dev='vdb'/><alias name='ua-disk-data'/></disk>
</devices></domain>`,
			}),
		}
		vm.Name, vm.UUID = "first", "first-uuid"

		if problems := p.planUpdate(t.Context(), on, vm, test.first); len(problems) > 0 {
			t.Errorf("%s: of the first: %+v", name, problems)
		}

		second := declared("second", map[string]domain.Disk{"data": disk("/data")})
		problems := p.planCreate(t.Context(), second, test.own, []candidate{{Reply: on}})

		if (len(problems) == 1) != test.reported || len(problems) > 1 {
			t.Errorf("%s: %+v", name, problems)
		}
	}
}

// TestPlanCreate_together: VMs that could each have a host alone are placed together as far as the hosts go. One that
// doesn't fit with the others is reported, and so is one that stays off but must not share a host with them. Where a VM
// really goes counts once that is decided.
func TestPlanCreate_together(t *testing.T) {
	t.Parallel()

	memory := uint64(40 << 30)
	app := map[string]string{"app": "web"}
	runs := Desired{Spec: domain.Spec{Memory: domain.Memory{Size: &memory}}}
	runs.Metadata.RunStrategy = "Always"

	off := runs
	off.Metadata.RunStrategy = "Halted"

	apart := off
	apart.Metadata.Labels = app
	apart.Placement.AntiAffinity = &AntiAffinity{Labels: app, Required: true}

	for name, test := range map[string]struct {
		d     Desired
		hosts int
		fit   int // how many VMs have no warning
		want  string
	}{
		"memory":                     {runs, 3, 3, "of memory there"},
		"memory of one host":         {runs, 1, 1, "of memory there"},
		"memory of VMs that are off": {off, 2, 5, ""},
		"anti-affinity":              {apart, 3, 3, "must not share a host"},
		"anti-affinity on one host":  {apart, 1, 1, "must not share a host"},
	} {
		p, all, _ := spread()

		var candidates []candidate
		for _, a := range all[:test.hosts] {
			candidates = append(candidates, candidate{Reply: a, wish: test.d})
		}

		for i := range test.fit + 1 {
			d := test.d
			d.Spec.Name = fmt.Sprintf("vm%d", i)

			for range 2 { // A plan is made again before the VM is created.
				problems := p.planCreate(t.Context(), d, "", candidates)
				if told := len(problems) > 0; told != (i == test.fit && test.want != "") {
					t.Errorf("%s: VM %d: %+v", name, i, problems)
				}

				for _, problem := range problems {
					if !problem.Warning || !strings.Contains(problem.Detail, test.want) {
						t.Errorf("%s: %+v, want %q", name, problem, test.want)
					}
				}
			}
		}
	}

	p, all, _ := spread()
	candidates := []candidate{{Reply: all[0], wish: runs}, {Reply: all[1], wish: runs}}
	runs.Spec.Name = "first"
	p.planCreate(t.Context(), runs, "", candidates)
	p.pick(candidates[1:], runs, nil)

	pinned := runs
	pinned.Spec.Name, pinned.Metadata.Host = "second", all[1].Host.Name

	for _, c := range candidates { // Not both hosts have the first VM.
		pinned.Spec.Name += "d"
		if problems := p.planSomewhere(t.Context(), pinned, plannedStart{}, []candidate{c}); (len(problems) > 0) !=
			(c.Host == all[1].Host) {
			t.Errorf("host %s: %+v", c.Host.Name, problems)
		}
	}

	// A VM that stays off and gets a disk needs nothing more of its host.
	idle := &inventory.VM{On: all[1].Host, Host: all[1].Host.Name, Entry: inventory.NewEntry(libvirt.Domain{
		Name: "idle", UUID: "idle", State: libvirt.Shutoff,
		PersistentXML: `<domain type='qemu'><name>idle</name><os><type>hvm</type></os></domain>`,
	})}
	idle.Name, idle.UUID = "idle", "idle"

	p.planStart(t.Context(), all[1], "third", plannedStart{host: all[1].Host.Name})

	if problems := p.planDisks(t.Context(), all[1].Host, idle, off); len(problems) > 0 {
		t.Errorf("a VM that stays off: %+v", problems)
	}
}
