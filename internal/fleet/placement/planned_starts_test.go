package placement

import (
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
