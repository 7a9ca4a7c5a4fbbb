package fleet

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/virtfleet/terraform-provider-virtfleet/internal/domain"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/fleettest"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/inventory"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/fleet/placement"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/lab"
	"github.com/virtfleet/terraform-provider-virtfleet/internal/ssh"
)

// Two VMs on one file whose paths differ by a symbolic link are told in the plan if the paths look alike, and at every
// start and every move in any case.
func TestLab_diskHasOneWriterThroughLinks(t *testing.T) {
	t.Parallel()

	l := lab.Open(t)
	f := labFleet(t, l, t.Name(), func(name string, hc *inventory.HostConfig) { comparesFiles(t, l, name, hc) })
	on := func(host, name, file string) placement.Desired {
		d := light(t, l, name, nil)
		d.Metadata.Host = host
		d.Spec.Disks = map[string]domain.Disk{"root": {Source: domain.DiskSource{File: file}, Format: "raw"}}

		l.RemoveDomain(t, d.Spec.Name)

		return d
	}
	image := func(host, name string) string { return l.Image(t, host, lab.Name(t)+name, "raw", 1<<20) }
	link := func(host, to, name string) string {
		l.Run(t, host, "ln", "-s", to, name)
		t.Cleanup(func() {
			if err := os.Remove(l.Host(host).Path(name)); err != nil {
				t.Error(err)
			}
		})

		return name
	}

	file := image("kvm1", "-disk")
	dir := link("kvm1", "/var/lib/libvirt/images", "/var/lib/libvirt/"+lab.Name(t))
	first := create(t, f, l, on("kvm1", "first", file))

	for name, second := range map[string]placement.Desired{
		"alike": on("kvm1", "alike", dir+strings.TrimPrefix(file, "/var/lib/libvirt/images")),
		"other": on("kvm1", "other", link("kvm1", file, file+"-link")),
	} {
		parts := []string{
			fmt.Sprintf("VM %q", first.Name), second.Spec.Disks["root"].Source.File + ", the same file as " + file,
		}

		problems, err := f.CheckCreate(t.Context(), second)
		told := slices.ContainsFunc(problems, func(p inventory.Problem) bool {
			return !p.Warning && strings.Contains(p.Detail, parts[0]) && strings.Contains(p.Detail, parts[1])
		})

		if err != nil || told != (name == "alike") {
			t.Errorf("planning %s: %+v, %v", name, problems, err)
		}

		_, err = f.Create(t.Context(), second)
		tells(t, "creating "+name, err, placement.ErrShared, parts...)
	}

	once := image("kvm1", "-once")
	atOnceThroughLinks(t, l, f, []placement.Desired{
		on("kvm1", "once", once), on("kvm1", "again", link("kvm1", once, once+"-link")),
	})

	// Where it would go, its path leads to the disk of another VM.
	there := create(t, f, l, on("kvm2", "there", image("kvm2", "-there")))
	link("kvm2", there.LiveSpec.Disks["root"].Source.File, file)

	blockers, err := f.LinkBlockers(t.Context(), first, f.Host("kvm2"), false)
	if err != nil || len(blockers) != 1 || !strings.Contains(blockers[0].Message, there.Name) {
		t.Errorf("moving: %+v, %v", blockers, err)
	}

	// Different files are no obstacle.
	if blockers, err := f.LinkBlockers(t.Context(), there, f.Host("kvm1"), false); err != nil || len(blockers) > 0 {
		t.Errorf("moving another one: %+v, %v", blockers, err)
	}
}

// atOnceThroughLinks creates VMs on one file at the same time. One of them gets it at most, and the others are told
// whose it is, not that QEMU could not lock it.
func atOnceThroughLinks(t *testing.T, l *lab.Lab, f *Fleet, wishes []placement.Desired) {
	t.Helper()

	var wg sync.WaitGroup

	errs := make([]error, len(wishes))

	for i, d := range wishes {
		wg.Go(func() { _, errs[i] = f.Create(t.Context(), d) })
	}

	fleettest.AwaitAll(t, &wg)

	running := 0

	for i, d := range wishes {
		if errs[i] != nil {
			tells(t, "creating "+d.Spec.Name+" at once with another", errs[i], placement.ErrShared)

			continue
		}

		running++

		if state := l.Virsh(t, "kvm1", "domstate", d.Spec.Name); !strings.Contains(state, "running") {
			t.Errorf("%s is %s", d.Spec.Name, state)
		}
	}

	if running > 1 {
		t.Errorf("%d VMs on one file were created; want one at most", running)
	}
}

// comparesFiles has a host say which paths lead to one file, as over SSH.
func comparesFiles(t *testing.T, l *lab.Lab, name string, hc *inventory.HostConfig) {
	t.Helper()

	client, err := ssh.NewClient(ssh.Config{
		Host: l.Host(name).Address, User: "root", PrivateKeyFile: l.PrivateKeyFile(),
		KnownHostsFile: l.KnownHostsFile(), ConfigFile: "none", Agent: new(bool),
	})
	if err != nil {
		t.Fatal(err)
	}

	t.Cleanup(func() { _ = client.Close() })

	hc.SameFile = client.SameFile
}
